"""The client side of the type checker's language server protocol, as far as a hover needs it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


class Editor:
    """An editor that has a folder open; requests are numbered from 1."""

    def __init__(self, sent: IO[bytes], received: IO[bytes], folder: Path) -> None:
        self._sent, self._received, self._folder = sent, received, folder
        self._number = 0
        settings = {"workspace": {"configuration": True}}
        folders = [{"uri": folder.as_uri(), "name": folder.name}]
        self._ask(
            "initialize", processId=None, rootUri=folder.as_uri(), workspaceFolders=folders, capabilities=settings
        )
        self._send(method="initialized", params={})

    def open(self, name: str, text: str) -> None:
        """Open a Python file of that text in the folder; it need not be on the disk."""
        document = {"uri": (self._folder / name).as_uri(), "languageId": "python", "version": 1, "text": text}
        self._send(method="textDocument/didOpen", params={"textDocument": document})

    def hover(self, name: str, line: int, character: int) -> str:
        """The hover text at a position in an open file."""
        place = {"line": line, "character": character}
        document = {"uri": (self._folder / name).as_uri()}
        shown = self._ask("textDocument/hover", textDocument=document, position=place)
        return shown["contents"]["value"]

    def _ask(self, method: str, **parameters: Any) -> Any:
        """The answer to a request; requests from the server meanwhile are answered too."""
        self._number += 1
        self._send(id=self._number, method=method, params=parameters)
        while "method" in (message := self._receive()) or message["id"] != self._number:
            if message.get("method") == "workspace/configuration":
                settings = [{"pythonPath": sys.executable} for _ in message["params"]["items"]]
                self._send(id=message["id"], result=settings)
            elif "id" in message:
                self._send(id=message["id"], result=None)
        return message["result"]

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._sent.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._sent.flush()

    def _receive(self) -> dict[str, Any]:
        header = dict(line.split(b": ") for line in iter(self._received.readline, b"\r\n"))
        return json.loads(self._received.read(int(header[b"Content-Length"])))


@contextmanager
def editing(server: str, folder: Path) -> Iterator[Editor]:
    """An editor of the files in a folder, for as long as the program of the server runs."""
    with subprocess.Popen([server, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin
            assert process.stdout
            yield Editor(process.stdin, process.stdout, folder)
        finally:
            process.kill()
