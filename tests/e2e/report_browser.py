# SPDX-License-Identifier: MIT
"""Chromium without a window, spoken to through two pipes (the DevTools protocol)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

import support

PROGRAMS = ("chromium-headless-shell", "chromium")  # the first is the smaller one
GUARD = 120  # seconds for an answer: more means that it hangs


def program():
    for name in PROGRAMS:
        path = shutil.which(name)
        if path:
            return path
    raise support.Skip("chromium", "there is no Chromium (scripts/deps report)")


class Browser:
    """One page.  What it asked for and complained of is in @requests and @complaints."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self.out = os.pipe()
        self.inn, theirs_out = os.pipe()
        self.number, self.rest, self.session = 0, b"", None
        self.requests, self.complaints = [], []

        def descriptors():
            """It reads from 3 and writes to 4."""
            one, two = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(one, 3)
            os.dup2(two, 4)

        words = [program(), "--headless", "--remote-debugging-pipe", "--disable-gpu",
                 "--no-first-run", "--user-data-dir=" + self.directory.name,
                 "--disable-background-networking", "--hide-scrollbars",
                 "--disable-dev-shm-usage"]
        if os.getuid() == 0:
            words.append("--no-sandbox")
        self.process = subprocess.Popen(
            words, preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(support.plain_environment(), TZ="UTC", HOME=self.directory.name))
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        # A page that wants something from the network does not get it.
        self.call("Network.emulateNetworkConditions", offline=True, latency=0,
                  downloadThroughput=-1, uploadThroughput=-1)
        return self

    def __exit__(self, *_):
        self.session = None
        self.call("Browser.close")
        self.process.wait(GUARD)
        os.close(self.out)
        os.close(self.inn)
        self.directory.cleanup()

    def message(self):
        """The next one, of any kind."""
        end = time.monotonic() + GUARD
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.inn], [], [], max(0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self.inn, 1 << 20)
            assert part, "Chromium has ended"
            self.rest += part
        raw, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(raw)
        self.notice(message.get("method"), message.get("params", {}))
        return message

    def notice(self, method, said):
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"][:200])
        elif method == "Network.loadingFailed":
            self.complaints.append("not loaded: %s" % said.get("errorText"))
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append("console.%s: %s" % (said["type"], said["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"])[:300])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        raw = json.dumps(message).encode() + b"\0"
        while raw:
            raw = raw[os.write(self.out, raw):]
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path):
        """Return when all of the page has been loaded; what was before is forgotten."""
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while self.message().get("method") != "Page.loadEventFired":
            pass

    def look(self, width, scheme, height=900):
        """As a window of this @width, of who wants it "light" or "dark"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def settle(self):
        """Return when what was changed is on the screen."""
        self.tell("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def tell(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path):
        """Of the whole page, for people."""
        made = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "scale": 1, "width": self.tell("innerWidth"),
            "height": self.tell("document.documentElement.scrollHeight")})
        support.write(path, base64.b64decode(made["data"]))

    def printed(self):
        """The page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
