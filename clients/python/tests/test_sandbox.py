"""Runs against the server of PARAWORK_URL."""

import os
import unittest
import urllib.request
from unittest import mock

from parawork import CommandExitError, ParaworkError, Sandbox, TimeoutError
from parawork import _client

OPTIONS = {"key": "python", "executor": os.environ.get("PARAWORK_TEST_EXECUTOR") or None}


class SandboxTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sandbox = Sandbox.create(**OPTIONS)
        cls.addClassCleanup(cls.sandbox.kill)

    def test_key(self):
        self.assertEqual(Sandbox.create(**OPTIONS).sandbox_id, self.sandbox.sandbox_id)
        self.assertEqual(Sandbox.connect(self.sandbox.sandbox_id).info["key"], "python")
        self.assertIn(self.sandbox.sandbox_id, [s["id"] for s in Sandbox.list()])

    def test_image_and_network(self):
        with self.assertRaises(ParaworkError) as e:
            Sandbox.create(**OPTIONS, image="none:1")
        self.assertEqual((e.exception.code, e.exception.details["sandbox_id"]), ("sandbox_differs", self.sandbox.sandbox_id))
        with self.assertRaises(ParaworkError) as e:
            Sandbox.create(**OPTIONS, network={"mode": "none"}, replace=True)
        self.assertEqual(e.exception.code, "sandbox_network_unsupported")

    def test_commands(self):
        parts = []
        r = self.sandbox.commands.run("echo $A; echo bad >&2", envs={"A": "grüße"}, on_stdout=parts.append)
        self.assertEqual((r.stdout, r.stderr, "".join(parts)), ("grüße\n", "bad\n", "grüße\n"))
        with self.assertRaises(CommandExitError) as e:
            self.sandbox.commands.run("echo no; exit 3")
        self.assertEqual((e.exception.exit_code, e.exception.stdout), (3, "no\n"))
        with self.assertRaises(TimeoutError):
            self.sandbox.commands.run("sleep 60", timeout_ms=100)

    def test_files(self):
        files = self.sandbox.files
        files.write("folder/a b.txt", "text ü")
        self.assertEqual(files.read("folder/a b.txt"), "text ü")
        files.write("folder/bytes", b"\0\xff")
        self.assertEqual(files.read("folder/bytes", format="bytes"), b"\0\xff")
        self.assertEqual(sorted(e["name"] for e in files.list("folder")), ["a b.txt", "bytes"])
        files.remove("folder/bytes")
        self.assertFalse(files.exists("folder/bytes"))
        self.assertTrue(files.exists("folder/a b.txt"))
        self.assertFalse(files.exists("none/x"))
        self.assertFalse(files.exists("folder/a b.txt/x"))
        self.assertTrue(files.exists("folder"))
        self.sandbox.commands.run("mkdir many && cd many && seq -w 10050 | xargs touch")
        self.assertTrue(files.exists("many/10050"))
        files.remove(".")  # everything
        self.assertEqual(files.list(), [])
        self.assertFalse(files.exists("many/10051"))
        with self.assertRaises(ParaworkError) as e:
            files.read("none")
        self.assertEqual(e.exception.status, 404)
        self.assertTrue(e.exception.code)

    def test_code(self):
        printed = []
        r = self.sandbox.run_code("print('hi')\n6 * 7", on_stdout=printed.append)
        self.assertEqual((r.text, "".join(printed)), ("42", "hi\n"))
        self.assertEqual(self.sandbox.run_code("1 / 0").error.name, "ZeroDivisionError")

    def test_end(self):
        with Sandbox.create(key="python, short", executor=OPTIONS["executor"]) as other:
            other.set_timeout(3_600_000)
        with self.assertRaises(ParaworkError):
            other.commands.run("true")

    def test_port(self):
        server = """
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
threading.Thread(target=s.serve_forever, daemon=True).start()
s.server_port"""
        number = int(self.sandbox.run_code(server).text)
        port = self.sandbox.get_port(number)
        self.assertEqual(port.host, self.sandbox.get_host(number))
        # Where the system does not resolve the host, the server itself is asked for it.
        request = urllib.request.Request(os.environ["PARAWORK_URL"], headers={**port.headers, "Host": port.host})
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(answer.read(), b"hello")

    def test_error_in_a_stream(self):
        stream = [b"event: queued\n", b"data: {}\n", b"\n", b"event: error\n", b'data: {"code":"budget","message":"No."}\n', b"\n"]
        with self.assertRaises(ParaworkError) as e:
            list(_client.events(stream))
        self.assertEqual(e.exception.code, "budget")

    def test_retries(self):
        """Only requests that may be sent twice are sent again."""
        client = _client.Client(url="http://127.0.0.1:1", token="x")
        with mock.patch("time.sleep") as sleep:
            with self.assertRaises(OSError):
                client.json("GET", "/x")
            self.assertEqual(sleep.call_count, _client.RETRIES)
            with self.assertRaises(OSError):
                client.json("POST", "/x", body={})
            self.assertEqual(sleep.call_count, _client.RETRIES)


if __name__ == "__main__":
    unittest.main()
