"""What editors and links do to the files of a folder, and what should change nothing."""

from pathlib import Path

CHANGES = ("utf-8-sig", "crlf", "link")


def edited(home: Path, names: tuple[str, ...], change: str) -> Path:
    """The folder, whose files `names` begin with a mark of UTF-8 now or end their lines as on Windows; or a link to it."""
    if change == "link":
        linked = home.parent / "linked"
        linked.symlink_to(home)
        return linked
    for name in names:
        text = (home / name).read_text()
        if change == "crlf":
            (home / name).write_bytes(text.replace("\n", "\r\n").encode())
        else:
            (home / name).write_text(text, change)
    return home
