"""Reads a page as a browser would and tells what in it could run or break the content policy."""

from html.parser import HTMLParser

_SCRIPTS_OF_OURS = "/dashboard/static/"
_ELEMENTS_NEVER_USED = {"iframe", "object", "embed", "img", "base", "style"}
_ADDRESSES = {"href", "src", "action", "formaction", "hx-get", "hx-post"}


class Inspector(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.dangers: list[str] = []
        self.headings: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        self.elements.append((tag, facts))
        if tag in _ELEMENTS_NEVER_USED:
            self.dangers.append(f"<{tag}>")
        if tag == "script" and not facts.get("src", "").startswith(_SCRIPTS_OF_OURS):
            self.dangers.append("inline script")
        for name, value in facts.items():
            if name == "style" or name.startswith(("on", "hx-on")):
                self.dangers.append(f"attribute {name}")
            if name in _ADDRESSES and not value.startswith(("/", "#")):
                self.dangers.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str, **facts: str) -> list[dict[str, str]]:
        wanted = facts.items()
        return [found for name, found in self.elements if name == tag and wanted <= found.items()]
