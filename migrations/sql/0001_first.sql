-- The model of design sections 1 to 8. What no client may break is held here.

-- The one clock that judges expiry. Tests move it with `set warploom.clock_offset = '1 hour'`.
create function clock_now() returns timestamptz
language sql stable
return now() + coalesce(nullif(current_setting('warploom.clock_offset', true), ''), '0')::interval;

create type task_state as enum (
  'idea', 'decomposed', 'pending', 'ready', 'claimed', 'done', 'failed', 'blocked', 'cancelled', 'dead_letter'
);
create type task_kind as enum ('work', 'gpu', 'job', 'barrier', 'epic', 'idea', 'question', 'skill', 'land');
create type lease_state as enum ('offered', 'active', 'ended');
create type lease_end as enum (
  'released', 'expired', 'lapsed', 'withdrawn', 'done', 'failed', 'escalated', 'reset', 'cancelled', 'forced'
);
create type failure_class as enum ('unknown', 'user_error', 'infra', 'oom_device', 'oom_host', 'interrupted');
create type env_style as enum ('uuid', 'index');
create type proposal_kind as enum ('release_at_step', 'swap', 'split_window');
create type proposal_state as enum ('open', 'accepted', 'declined', 'withdrawn', 'lapsed', 'kept', 'broken');
create type delivery_way as enum ('answer', 'wait', 'gpu_wait', 'monitor', 'channel', 'job');
create type errand_kind as enum ('kill', 'probe');
create type card_service as enum ('in_service', 'draining', 'drained', 'quarantined');
create type card_condition as enum ('clear', 'occupied', 'settling', 'foreign', 'ghost', 'lost', 'blind', 'gone');

create table project (
  id bigint generated always as identity primary key,
  name text not null unique check (char_length(name) between 1 and 80),
  description text check (char_length(description) <= 2000),
  created_at timestamptz not null default clock_now(),
  -- When its last open task was finished; null again as soon as there is another.
  completed_at timestamptz,
  archived_at timestamptz
);
insert into project (name) values ('default');

create table agent (
  id bigint generated always as identity primary key,
  name text not null unique check (char_length(name) between 1 and 80),
  created_at timestamptz not null default clock_now()
);

create table session (
  id bigint generated always as identity primary key,
  agent_id bigint not null references agent,
  project_id bigint not null references project,
  key text not null unique check (char_length(key) between 1 and 300),
  client text check (char_length(client) <= 80),
  directory text check (char_length(directory) <= 500),
  host_name text check (char_length(host_name) <= 80),
  pid integer check (pid > 0),
  process_started bigint,
  created_at timestamptz not null default clock_now(),
  check ((pid is null) = (process_started is null))
);
create index session_agent on session (agent_id);
create index session_process on session (host_name, pid) where pid is not null;

-- Heartbeats touch this narrow row and no other column of their session.
create table heartbeat (
  session_id bigint primary key references session on delete cascade,
  seen_at timestamptz not null,
  -- When it was noted that a session with a lease had fallen silent; null again at its next sign of life.
  silent_since timestamptz
) with (fillfactor = 50);

create table host (
  id bigint generated always as identity primary key,
  name text not null unique check (char_length(name) between 1 and 80),
  provider text not null check (char_length(provider) <= 80),
  driver text check (char_length(driver) <= 80),
  version text not null check (char_length(version) <= 80),
  problem text check (char_length(problem) <= 500),
  capabilities text[] not null default '{}' check (cardinality(capabilities) <= 32),
  -- What its host agent cannot know where it runs.
  limits text[] not null default '{}' check (cardinality(limits) <= 32),
  survey_seconds double precision not null check (survey_seconds > 0),
  clock_gap_seconds double precision,
  surveyed_at timestamptz not null,
  silent_since timestamptz,
  created_at timestamptz not null default clock_now()
) with (fillfactor = 50);

create table card (
  id bigint generated always as identity primary key,
  host_id bigint not null references host,
  uuid text not null unique check (char_length(uuid) between 1 and 120),
  index integer not null check (index >= 0),
  -- The number it had on its host before the driver last gave it another one.
  moved_from integer check (moved_from >= 0),
  moved_at timestamptz,
  model text not null check (char_length(model) <= 120),
  memory_mib integer not null check (memory_mib >= 0),
  pci_bus_id text check (char_length(pci_bus_id) <= 40),
  parent_uuid text check (char_length(parent_uuid) <= 120),
  -- What the people of its host say: how fast it is beside others, and whose processes keep nobody away.
  weight double precision not null default 1 check (weight between 0.01 and 1000),
  ignored text[] not null default '{}' check (cardinality(ignored) <= 96),
  service card_service not null default 'in_service',
  service_reason text check (char_length(service_reason) <= 500),
  service_since timestamptz not null default clock_now(),
  condition card_condition not null,
  condition_since timestamptz not null,
  condition_detail text check (char_length(condition_detail) <= 1000),
  observed_at timestamptz not null,
  -- When it last answered: its readings and processes are of then.
  read_at timestamptz,
  quiet_until timestamptz,
  baseline_mib integer check (baseline_mib >= 0),
  used_mib integer check (used_mib >= 0),
  utilisation integer check (utilisation between 0 and 100),
  -- Since when its holder has hardly used it, and whether that was said to them.
  idle_since timestamptz,
  idle_told boolean not null default false,
  processes jsonb not null default '[]',
  -- Whether its driver reports no list of processes.
  hides_processes boolean not null default false,
  -- Memory errors that could not be corrected, as counted by the driver since it was loaded; and how many of them an operator
  -- has put behind the card.
  ecc_errors bigint check (ecc_errors >= 0),
  ecc_excused bigint not null default 0 check (ecc_excused >= 0),
  -- The critical errors of the driver (Xids) that the event log has told of since `xids_noted_at`.
  noted_xids integer[] not null default '{}' check (cardinality(noted_xids) <= 32),
  xids_noted_at timestamptz,
  -- The latest jobs in a row that failed on it soon after their start; and what makes it suspect, once that was said.
  failures jsonb not null default '[]' check (jsonb_typeof(failures) = 'array' and jsonb_array_length(failures) <= 8),
  suspicion text check (char_length(suspicion) <= 500),
  suspected_at timestamptz,
  -- Whether it is to be probed for that once it is clear.
  awaits_probe boolean not null default false,
  check ((moved_from is null) = (moved_at is null)),
  check (idle_since is not null or not idle_told),
  check (xids_noted_at is not null or noted_xids = '{}'),
  check ((suspicion is null) = (suspected_at is null)),
  check (suspicion is not null or not awaits_probe)
) with (fillfactor = 50);
create index card_host on card (host_id);

create table task (
  id bigint generated always as identity primary key,
  project_id bigint not null references project,
  kind task_kind not null,
  state task_state not null,
  title text not null check (char_length(title) between 1 and 200),
  purpose text check (char_length(purpose) between 1 and 300),
  context text check (char_length(context) <= 20000),
  done_when text check (char_length(done_when) <= 20000),
  parent_id bigint references task,
  priority smallint not null default 2 check (priority between 0 and 2),
  creator_id bigint references agent,
  -- Who asked for it, waits with it, holds it or finished it; empty while anybody may claim it.
  agent_id bigint references agent,
  session_id bigint references session,
  -- The creator's own name for it, once in a project; and what its content comes to, once among the open ones.
  key text check (char_length(key) between 1 and 300),
  fingerprint uuid,
  -- How many of its upstream tasks are not done yet; kept by the triggers on `dependency` and `task`.
  unmet integer not null default 0 check (unmet >= 0),
  attempts integer not null default 0 check (attempts >= 0),
  max_attempts smallint not null default 3 check (max_attempts between 1 and 100),
  -- What it needs: `need_count` cards of one host (0: none), named ones or any that fit.
  need_count smallint not null default 0 check (need_count between 0 and 64),
  need_cards bigint[] not null default '{}' check (cardinality(need_cards) <= 64),
  need_memory_mib integer check (need_memory_mib > 0),
  need_model text check (char_length(need_model) between 1 and 120),
  -- Named things of which one task at a time has each, and what its host must be able to do.
  need_resources text[] not null default '{}' check (cardinality(need_resources) <= 16),
  need_capabilities text[] not null default '{}' check (cardinality(need_capabilities) <= 16),
  is_plain boolean generated always as (
    need_count = 0 and cardinality(need_resources) = 0 and cardinality(need_capabilities) = 0
  ) stored,
  env_style env_style not null default 'uuid',
  run_time interval check (run_time > interval '0'),
  deadline_at timestamptz,
  -- The queue order: when it became ready, minus the head start of its priority.
  head_start interval not null default '0',
  ready_at timestamptz,
  order_key timestamptz,
  missed_offers smallint not null default 0 check (missed_offers >= 0),
  -- Why it is blocked: its owner misses offers, it was escalated, or this upstream task will not be done.
  parked_at timestamptz,
  escalated_at timestamptz,
  culprit_id bigint references task,
  -- How long the latest finished runs of the same purpose took, as of when it was queued.
  past_lengths interval[] not null default '{}' check (cardinality(past_lengths) <= 20),
  lease_id bigint,
  lease_live boolean generated always as (case when lease_id is not null then true end) stored,
  outcome text check (char_length(outcome) <= 500),
  failure failure_class,
  retry_at timestamptz,
  created_at timestamptz not null default clock_now(),
  finished_at timestamptz,
  unique (id, lease_id),
  check ((state = 'claimed') = (lease_id is not null)),
  check ((state in ('done', 'failed', 'cancelled', 'dead_letter')) = (finished_at is not null)),
  check (state <> 'ready' or (ready_at is not null and order_key is not null)),
  constraint task_met check (state not in ('ready', 'claimed') or unmet = 0),
  check (state <> 'pending' or unmet > 0 or kind = 'epic'),
  check ((state = 'blocked') = (num_nonnulls(parked_at, escalated_at, culprit_id) = 1)),
  check (state <> 'idea' or kind = 'idea'),
  check (kind <> 'epic' or state in ('pending', 'done', 'blocked', 'cancelled')),
  check (retry_at is null or state = 'failed'),
  check (failure is null or state in ('failed', 'dead_letter')),
  check (kind <> 'gpu' or need_count > 0),
  check (cardinality(need_cards) in (0, need_count))
);
create unique index task_purpose on task (project_id, agent_id, purpose)
  where purpose is not null and state in ('pending', 'ready', 'claimed', 'blocked');
create unique index task_key on task (project_id, key) where key is not null and state <> 'cancelled';
create unique index task_fingerprint on task (project_id, fingerprint)
  where fingerprint is not null and state in ('idea', 'pending', 'ready', 'claimed', 'blocked', 'failed');
-- What may be claimed: at once, or with something that must be free.
create index task_plain on task (project_id, order_key, id)
  where state = 'ready' and kind = 'work' and is_plain and session_id is null;
create index task_special on task (project_id, order_key, id)
  where state = 'ready' and kind = 'work' and not is_plain and session_id is null;
-- What waits in the queues of cards.
create index task_ticket on task (order_key, id) where state = 'ready' and need_count > 0 and session_id is not null;
create index task_waiting on task (agent_id) where state in ('ready', 'claimed', 'blocked');
-- The graph of a project by state; requests for cards are no part of it.
create index task_state on task (project_id, state, id) where kind <> 'gpu';
create index task_parent on task (parent_id) where parent_id is not null;
create index task_culprit on task (culprit_id) where culprit_id is not null;
create index task_epic on task (id) where kind = 'epic' and state = 'pending' and unmet = 0;
create index task_retry on task (retry_at) where retry_at is not null;
create index task_deadline on task (project_id, deadline_at) where deadline_at is not null;

-- The queue of one card: every ready ticket that may use it. Rows live only while the ticket waits.
create table queue (
  card_id bigint not null references card,
  order_key timestamptz not null,
  task_id bigint not null references task,
  primary key (card_id, order_key, task_id)
);
create index queue_task on queue (task_id);

create table dependency (
  task_id bigint not null references task,
  upstream_id bigint not null references task,
  -- The task goes on without this one: it was skipped, or it was a child of an epic and was cancelled.
  waived boolean not null default false,
  primary key (task_id, upstream_id),
  check (task_id <> upstream_id)
);
create index dependency_upstream on dependency (upstream_id);

create table lease (
  id bigint generated always as identity primary key,
  task_id bigint not null references task,
  session_id bigint not null references session,
  agent_id bigint not null references agent,
  state lease_state not null,
  live boolean generated always as (state <> 'ended') stored,
  live_id bigint generated always as (case when state <> 'ended' then id end) stored,
  granted_at timestamptz not null default clock_now(),
  accepted_at timestamptz,
  -- The first time that an offer reached its session, and how.
  delivered_at timestamptz,
  delivered_by delivery_way,
  -- How long its holder may be silent, where that was asked for; else the setting.
  life interval check (life between interval '10 seconds' and interval '24 hours'),
  expected_end timestamptz,
  expires_at timestamptz not null,
  ended_at timestamptz,
  ended lease_end,
  unique (id, live),
  unique (task_id, id, live),
  check ((state = 'ended') = (ended_at is not null)),
  check ((state = 'ended') = (ended is not null)),
  check (state <> 'active' or accepted_at is not null),
  check (state <> 'offered' or accepted_at is null),
  check ((delivered_at is null) = (delivered_by is null))
) with (fillfactor = 70);
create unique index lease_task on lease (task_id) where state <> 'ended';
create index lease_live on lease (id) where state <> 'ended';
create index lease_session on lease (session_id) where state <> 'ended';

-- A claimed task has a live lease of its own, and a live lease has its claimed task; both are checked at commit.
alter table task add constraint task_lease foreign key (id, lease_id, lease_live)
  references lease (task_id, id, live) deferrable initially deferred;
alter table lease add constraint lease_claims foreign key (task_id, live_id)
  references task (id, lease_id) deferrable initially deferred;

create table lease_card (
  lease_id bigint not null,
  card_id bigint not null references card,
  live boolean not null default true,
  primary key (lease_id, card_id),
  foreign key (lease_id, live) references lease (id, live) on update cascade
);
-- One live lease per card slot: the last word in every race.
create unique index lease_card_live on lease_card (card_id) where live;
create index lease_card_history on lease_card (card_id, lease_id);

-- A card promised to one agent for a window. It holds until its end, unless its agent or an operator gives it up.
create table reservation (
  id bigint generated always as identity primary key,
  card_id bigint not null references card,
  agent_id bigint not null references agent,
  session_id bigint references session on delete set null,
  title text check (char_length(title) between 1 and 200),
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  created_at timestamptz not null default clock_now(),
  -- When it was noted that its window had begun and that it was over.
  begun_at timestamptz,
  over_at timestamptz,
  given_up_at timestamptz,
  given_up_by bigint references agent,
  check (ends_at > starts_at and ends_at <= starts_at + interval '24 hours'),
  check ((given_up_at is null) = (given_up_by is null)),
  -- Two promises for one card never overlap.
  constraint reservation_alone exclude using gist (
    int8range(card_id, card_id, '[]') with &&, tstzrange(starts_at, ends_at) with &&
  ) where (given_up_at is null)
);
-- What is not over yet: none of these grows with what was.
create index reservation_ahead on reservation (card_id, ends_at) where over_at is null and given_up_at is null;
create index reservation_agent on reservation (agent_id, ends_at) where over_at is null and given_up_at is null;
create index reservation_begin on reservation (starts_at) where begun_at is null and over_at is null and given_up_at is null;
create index reservation_over on reservation (ends_at) where over_at is null and given_up_at is null;
create index reservation_session on reservation (session_id) where session_id is not null;

-- What one agent proposes to another: about a lease and the ticket that waits for its cards, about two tickets, or about a
-- reservation. It moves nothing before the other has accepted it.
create table proposal (
  id bigint generated always as identity primary key,
  kind proposal_kind not null,
  state proposal_state not null default 'open',
  project_id bigint not null references project,
  proposer_id bigint not null references agent,
  partner_id bigint not null references agent,
  lease_id bigint references lease,
  task_id bigint references task,
  other_task_id bigint references task,
  reservation_id bigint references reservation on delete cascade,
  at_step bigint check (at_step >= 0),
  at_moment timestamptz,
  length interval check (length between interval '1 minute' and interval '24 hours'),
  reason text not null check (char_length(reason) between 1 and 500),
  made_at timestamptz not null default clock_now(),
  expires_at timestamptz not null,
  answered_at timestamptz,
  answer text check (char_length(answer) between 1 and 500),
  -- When the step or the moment was reached, and the holder told.
  due_at timestamptz,
  closed_at timestamptz,
  replaces_id bigint references proposal on delete set null,
  check (proposer_id <> partner_id),
  check (expires_at > made_at),
  check (at_step is null or at_moment is null),
  check (
    case kind
      when 'release_at_step' then num_nulls(lease_id, task_id) = 0 and num_nonnulls(at_step, at_moment) = 1
        and num_nonnulls(other_task_id, reservation_id, length) = 0
      when 'swap' then num_nulls(task_id, other_task_id) = 0 and task_id <> other_task_id
        and num_nonnulls(lease_id, reservation_id, at_step, at_moment, length) = 0
      when 'split_window' then length is not null and other_task_id is null and (lease_id is null) <> (reservation_id is null)
        and (lease_id is null) = (task_id is null) and (lease_id is not null or num_nonnulls(at_step, at_moment) = 0)
    end
  ),
  check ((state in ('open', 'accepted')) = (closed_at is null)),
  check (answered_at is not null or state in ('open', 'withdrawn', 'lapsed')),
  check (state <> 'open' or num_nonnulls(answered_at, answer) = 0),
  -- What is done in the moment in which it is agreed is never in force.
  check (state <> 'accepted' or lease_id is not null),
  check (due_at is null or answered_at is not null)
);
-- One open proposal about a thing between two agents, and one agreement about a lease.
create unique index proposal_open on proposal (
  least(proposer_id, partner_id), greatest(proposer_id, partner_id), coalesce(lease_id, 0), coalesce(reservation_id, 0),
  (case when kind = 'swap' then least(task_id, other_task_id) else 0 end),
  (case when kind = 'swap' then greatest(task_id, other_task_id) else 0 end)
) where state = 'open';
create unique index proposal_agreed on proposal (lease_id) where state = 'accepted';
-- What is not over yet: none of these grows with what was.
create index proposal_standing on proposal (id) where state in ('open', 'accepted');
create index proposal_mine on proposal (proposer_id, id) where state in ('open', 'accepted');
create index proposal_theirs on proposal (partner_id, id) where state in ('open', 'accepted');
create index proposal_made on proposal (proposer_id, partner_id, made_at);
create index proposal_closed on proposal (closed_at) where closed_at is not null;
create index proposal_reservation on proposal (reservation_id) where reservation_id is not null;
create index proposal_replaced on proposal (replaces_id) where replaces_id is not null;

-- Named resources of live leases; one live lease per name.
create table lease_resource (
  lease_id bigint not null,
  name text not null check (char_length(name) between 1 and 80),
  live boolean not null default true,
  primary key (lease_id, name),
  foreign key (lease_id, live) references lease (id, live) on update cascade
);
create unique index lease_resource_live on lease_resource (name) where live;

-- Steps, and what their holder says of them: either may come without the other.
create table progress (
  lease_id bigint primary key references lease on delete cascade,
  step bigint check (step >= 0),
  total bigint check (total >= 1),
  rate double precision check (rate >= 0),
  spread double precision not null default 0 check (spread >= 0),
  reported_at timestamptz,
  note text check (char_length(note) between 1 and 500),
  noted_at timestamptz,
  check ((step is null) = (reported_at is null)),
  check ((note is null) = (noted_at is null))
) with (fillfactor = 50);

-- How long jobs on cards took that went well: what later runs of the same purpose are expected to take. It refers to nothing, so
-- that writing it locks nothing.
create table run (
  lease_id bigint primary key,
  project_id bigint not null,
  job text not null check (char_length(job) between 1 and 200),
  model text not null check (char_length(model) <= 120),
  length interval not null check (length >= interval '0'),
  ended_at timestamptz not null
);
create index run_job on run (project_id, job, ended_at desc);

-- What was first foretold, and when it came: of the start of a ticket (without a lease), or of the end of a run. It refers to
-- nothing, so that writing it locks nothing.
create table promise (
  id bigint generated always as identity primary key,
  task_id bigint not null,
  lease_id bigint,
  word text not null check (word in ('measured', 'history', 'declared')),
  promised_at timestamptz not null default clock_now(),
  p50 timestamptz not null,
  p90 timestamptz not null,
  came_at timestamptz,
  check (p50 <= p90)
);
create unique index promise_start on promise (task_id) where lease_id is null and came_at is null;
create unique index promise_end on promise (lease_id, word) where lease_id is not null;
create index promise_came on promise (came_at) where came_at is not null;

-- What a finished task left: apart from it, so that claims read and write narrow rows.
create table result (
  task_id bigint primary key references task,
  lease_id bigint,
  output jsonb check (pg_column_size(output) <= 200000),
  branch text check (char_length(branch) between 1 and 300),
  created_at timestamptz not null default clock_now()
);

create table escalation (
  id bigint generated always as identity primary key,
  task_id bigint not null references task,
  agent text not null check (char_length(agent) between 1 and 80),
  message text not null check (char_length(message) between 1 and 4000),
  created_at timestamptz not null default clock_now(),
  answer text check (char_length(answer) between 1 and 4000),
  answered_by text check (char_length(answered_by) between 1 and 80),
  answered_at timestamptz,
  check (num_nonnulls(answered_by, answered_at) in (0, 2))
);
create index escalation_open on escalation (id) where answered_at is null;
create index escalation_task on escalation (task_id);

create table comment (
  id bigint generated always as identity primary key,
  task_id bigint not null references task,
  author text not null check (char_length(author) between 1 and 80),
  body text not null check (char_length(body) between 1 and 4000),
  created_at timestamptz not null default clock_now()
);
create index comment_task on comment (task_id, id);

create table event (
  xid xid8 not null default pg_current_xact_id(),
  id bigint generated always as identity,
  at timestamptz not null default clock_now(),
  kind text not null check (char_length(kind) between 1 and 40),
  project_id bigint,
  task_id bigint,
  lease_id bigint,
  session_id bigint,
  host_id bigint,
  card_ids bigint[] not null default '{}',
  facts jsonb not null default '{}',
  primary key (xid, id)
);
create index event_at on event (at);
create index event_task on event (task_id, xid, id) where task_id is not null;

-- To one session, or to whichever session of an agent calls next.
create table message (
  id bigint generated always as identity primary key,
  agent_id bigint not null references agent,
  session_id bigint references session on delete cascade,
  project_id bigint references project,
  task_id bigint references task,
  -- Of which proposal it tells.
  proposal_id bigint references proposal on delete set null,
  sender text not null check (char_length(sender) between 1 and 80),
  body text not null check (char_length(body) between 1 and 4000),
  sent_at timestamptz not null default clock_now(),
  pushed_at timestamptz,
  read_at timestamptz
);
create index message_unread on message (agent_id, id) where read_at is null;
create index message_session on message (session_id) where session_id is not null;
create index message_proposal on message (proposal_id) where proposal_id is not null;

-- What a host is asked to do once: to end the processes of a lease, or to probe a card. Open until its agent has answered, or
-- until its time is over; an answer that comes later still counts.
create table errand (
  id bigint generated always as identity primary key,
  host_id bigint not null references host,
  kind errand_kind not null,
  lease_id bigint references lease,
  card_id bigint references card,
  asked_by text not null check (char_length(asked_by) between 1 and 80),
  reason text check (char_length(reason) between 1 and 500),
  facts jsonb not null default '{}' check (pg_column_size(facts) <= 100000),
  asked_at timestamptz not null default clock_now(),
  expires_at timestamptz not null,
  taken_at timestamptz,
  lapsed_at timestamptz,
  answered_at timestamptz,
  outcome jsonb check (pg_column_size(outcome) <= 200000),
  is_open boolean generated always as (answered_at is null and lapsed_at is null) stored,
  check ((kind = 'kill') = (lease_id is not null)),
  check ((kind = 'probe') = (card_id is not null)),
  check ((answered_at is null) = (outcome is null)),
  check (num_nonnulls(answered_at, lapsed_at) < 2)
);
create index errand_open on errand (host_id, id) where is_open;
create unique index errand_lease on errand (lease_id, host_id) where is_open and lease_id is not null;
create unique index errand_card on errand (card_id) where is_open and card_id is not null;

-- Who does the orchestrator's duties: one row, taken over when it has expired.
create table leader (
  name text primary key check (char_length(name) between 1 and 80),
  holder text not null check (char_length(holder) between 1 and 200),
  taken_at timestamptz not null,
  expires_at timestamptz not null
);
