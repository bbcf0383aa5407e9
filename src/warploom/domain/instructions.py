"""What an agent is told when its client connects, whichever door it came through."""

INSTRUCTIONS = (
    "Warploom shares the GPUs of this machine between agents and people. Before you run anything on a GPU, ask for the "
    "card with gpu_request and use only the variables it gives you. When the card is busy you get a place in its "
    "queue: run `warploom wait T-17` (your ticket) in the background and end your turn; it exits when the card is "
    "yours. "
    "Call gpu_release as soon as the job ends. Call loom_me after your context was compacted. "
    "Never use a card you hold no lease on, and never stop other people's processes."
)
