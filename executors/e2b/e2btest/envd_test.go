package e2btest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestEnvdRefuses(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	_, pid := b.start(m{"tag": "one"})
	_, tty := b.start(m{"process": m{"cmd": "/bin/cat"}, "pty": m{"size": m{"cols": 80, "rows": 24}}})
	sel := m{"pid": pid}
	for name, c := range map[string]struct {
		method string
		in     m
		status int
		code   string
	}{
		"no process":            {"SendInput", m{"process": m{"pid": 4_000_000}, "input": m{"stdin": ""}}, 404, "not_found"},
		"no selector":           {"SendSignal", m{"signal": "SIGNAL_SIGKILL"}, 501, "unimplemented"},
		"two selectors":         {"SendSignal", m{"process": m{"pid": pid, "tag": "x"}, "signal": "SIGNAL_SIGKILL"}, 400, "invalid_argument"},
		"no signal":             {"SendSignal", m{"process": sel}, 501, "unimplemented"},
		"another signal":        {"SendSignal", m{"process": sel, "signal": "SIGNAL_SIGINT"}, 400, "invalid_argument"},
		"keys for a pipe":       {"SendInput", m{"process": sel, "input": m{"pty": b64("x")}}, 500, "internal"},
		"input for a tty":       {"SendInput", m{"process": m{"pid": tty}, "input": m{"stdin": b64("x")}}, 500, "internal"},
		"no input":              {"SendInput", m{"process": sel}, 501, "unimplemented"},
		"not base64":            {"SendInput", m{"process": sel, "input": m{"stdin": "***"}}, 400, "invalid_argument"},
		"an unknown field":      {"SendInput", m{"process": sel, "inputs": m{}}, 400, "invalid_argument"},
		"the end of a tty":      {"CloseStdin", m{"process": m{"pid": tty}}, 500, "unknown"},
		"the size of a pipe":    {"Update", m{"process": sel, "pty": m{"size": m{"cols": 1, "rows": 1}}}, 500, "internal"},
		"an unknown tag":        {"SendInput", m{"process": m{"tag": "two"}, "input": m{"stdin": b64("x")}}, 404, "not_found"},
		"a file made a folder":  {"/filesystem.Filesystem/MakeDir", m{"path": "/etc/passwd"}, 400, "invalid_argument"},
		"a folder made twice":   {"/filesystem.Filesystem/MakeDir", m{"path": "/home/user"}, 409, "already_exists"},
		"a file for a folder":   {"/filesystem.Filesystem/MakeDir", m{"path": "/etc/passwd/x"}, 500, "internal"},
		"something in a file":   {"/filesystem.Filesystem/Stat", m{"path": "/etc/passwd/x"}, 500, "internal"},
		"nothing there":         {"/filesystem.Filesystem/Stat", m{"path": "nothing"}, 404, "not_found"},
		"a file listed":         {"/filesystem.Filesystem/ListDir", m{"path": "/etc/passwd"}, 400, "invalid_argument"},
		"nothing moved":         {"/filesystem.Filesystem/Move", m{"source": "nothing", "destination": "x"}, 404, "not_found"},
		"another user's home":   {"/filesystem.Filesystem/Stat", m{"path": "~root/x"}, 400, "invalid_argument"},
		"an unknown watcher":    {"/filesystem.Filesystem/GetWatcherEvents", m{"watcherId": "w0"}, 404, "not_found"},
		"a path with a NUL":     {"/filesystem.Filesystem/Stat", m{"path": "a\x00b"}, 500, "internal"},
		"input before anything": {"SendInput", m{}, 501, "unimplemented"},
	} {
		method := "process.Process/" + c.method
		if strings.HasPrefix(c.method, "/") {
			method = c.method[1:]
		}
		text, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		req := b.request("POST", "/"+method, bytes.NewReader(text))
		req.Header.Set("Content-Type", "application/json")
		a, err := do(req)
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Code, Message string }
		a.into(t, &e)
		if a.status != c.status || e.Code != c.code || e.Message == "" {
			t.Errorf("%s: %d %s, want %d %s", name, a.status, a.body, c.status, c.code)
		}
	}
	raw := func(want int, path string, edit func(*http.Request)) {
		t.Helper()
		req := b.request("POST", path, strings.NewReader("{}"))
		req.Header.Set("Content-Type", "application/json")
		edit(req)
		b.send(want, req)
	}
	raw(401, "/process.Process/List", func(r *http.Request) { r.Header.Del("X-Access-Token") })
	raw(401, "/process.Process/List", func(r *http.Request) { r.Header.Set("X-Access-Token", "ea_wrong") })
	raw(401, "/process.Process/List", func(r *http.Request) { r.SetBasicAuth("stranger", "") })
	raw(200, "/process.Process/List", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }) // only Basic is looked at
	raw(415, "/process.Process/List", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	raw(415, "/process.Process/Start", func(*http.Request) {})
	raw(405, "/process.Process/List", func(r *http.Request) { r.Method = "GET" })
	raw(400, "/process.Process/List", func(r *http.Request) { r.Header.Set("Connect-Protocol-Version", "2") })
	raw(400, "/process.Process/List", func(r *http.Request) { r.Header.Set("Connect-Timeout-Ms", "soon") })
	raw(404, "/process.Process/Fly", func(*http.Request) {})
	raw(404, "/init", func(*http.Request) {})
	raw(404, "/freeze", func(*http.Request) {})
	raw(404, "/fake/disk", func(*http.Request) {})
	b.send(204, func() *http.Request { r := b.request("GET", "/health", nil); r.Header.Del("X-Access-Token"); return r }())

	for name, c := range map[string]struct {
		in   any
		code string
	}{
		"no folder":   {m{"process": m{"cmd": "/bin/true", "cwd": "/nothing"}}, "invalid_argument"},
		"a bad field": {m{"process": m{"cmd": "/bin/true", "env": m{}}}, "invalid_argument"},
	} {
		s := b.open("process.Process/Start", c.in, nil)
		_, err := s.raw()
		if e, ok := err.(*errStream); !ok || e.Code != c.code {
			t.Errorf("%s: %v, want %s in a stream that is 200", name, err, c.code)
		}
	}
	twice := b.open("process.Process/Start", m{"process": m{"cmd": "/bin/true"}}, func(r *http.Request) {
		r.Body = io.NopCloser(bytes.NewReader(append(frame(m{"process": m{"cmd": "/bin/true"}}), frame(m{})...)))
		r.ContentLength = -1
	})
	if _, err := twice.raw(); err == nil {
		t.Error("a request of two messages is taken")
	}
	packed := b.open("process.Process/Start", m{}, func(r *http.Request) {
		r.Body = io.NopCloser(bytes.NewReader(append([]byte{1}, frame(m{})[1:]...)))
		r.ContentLength = -1
	})
	if _, err := packed.raw(); err == nil {
		t.Error("a compressed message is taken")
	}
}

func TestAProgramThatIsNotThereEndsWith127(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	b.sh("touch /home/user/plain")
	for _, c := range []struct {
		in   m
		code int
		says string
	}{
		{m{"process": m{"cmd": "/nothing", "cwd": "/"}}, 127, "/nothing"},
		{m{"process": m{"cmd": "nothing"}}, 127, "nothing"},
		{m{"process": m{"cmd": "/home/user/plain"}}, 126, "ermission denied"},
		{m{"process": m{}}, 127, ""},
	} {
		s, pid := b.start(c.in)
		said, end, err := s.rest()
		if err != nil || end == nil || end.ExitCode != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%v: ended with %+v and said %q, want %d; %v", c.in, end, said, c.code, err)
		}
		again := b.open("process.Process/Connect", m{"process": m{"pid": pid}}, nil) // it is still told for a while
		if e, err := again.next(); err != nil || e.Start == nil {
			t.Errorf("%v: connecting to what has ended: %+v, %v", c.in, e, err)
		}
		if _, end, err := again.rest(); err != nil || end == nil || end.ExitCode != c.code {
			t.Errorf("%v: its end is reported as %+v, %v", c.in, end, err)
		}
	}
}

func TestAProcessOutlivesItsStreamAndLosesWhatNobodyReads(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s, pid := b.start(m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", "echo before; while read x; do echo $x; echo $x >> ~/heard; done; exit 7"}}})
	s.until("before")
	s.body.Close()
	say := func(text string) {
		b.rpc(http.StatusOK, "process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": b64(text)}})
	}
	heard := func(text string) {
		eventually(t, text+" is heard", func() bool { out, _ := b.sh("cat ~/heard"); return strings.Contains(out, text) })
	}
	say("lost\n")
	heard("lost")
	var list struct{ Processes []struct{ Pid int } }
	b.rpc(http.StatusOK, "process.Process/List", m{}).into(t, &list)
	if len(list.Processes) != 1 || list.Processes[0].Pid != pid {
		t.Errorf("%+v", list)
	}
	again := b.open("process.Process/Connect", m{"process": m{"pid": pid}}, nil)
	again.begun()
	other := b.open("process.Process/Connect", m{"process": m{"pid": pid}}, nil)
	other.begun()
	say("found\n")
	b.rpc(http.StatusOK, "process.Process/CloseStdin", m{"process": m{"pid": pid}})
	for _, one := range []*stream{again, other} {
		out, end, err := one.rest()
		if err != nil || out != "found\n" || end == nil || end.ExitCode != 7 || end.Status != "exit status 7" || end.Error != "exit status 7" {
			t.Errorf("%q, %+v, %v", out, end, err)
		}
	}
	b.rpc(http.StatusNotFound, "process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_SIGKILL"})
}

func TestASlowReaderHoldsUpEverybody(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s, pid := b.start(m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", "read x; head -c 64000000 /dev/zero; touch ~/done; cat >/dev/null"}}})
	slow := b.open("process.Process/Connect", m{"process": m{"pid": pid}}, nil)
	slow.begun()
	b.rpc(http.StatusOK, "process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": b64("go\n")}})
	go func() { _, _, _ = s.rest() }()
	if _, err := slow.next(); err != nil {
		t.Fatal(err)
	}
	if out, _ := b.sh("ls ~/done 2>&1"); !strings.Contains(out, "No such file") {
		t.Errorf("the process went on without its slowest reader: %q", out)
	}
	slow.body.Close()
	eventually(t, "the process goes on when it has left", func() bool { out, _ := b.sh("ls ~/done 2>&1"); return !strings.Contains(out, "No such file") })
}

func TestADeadlineKillsTheProcess(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s := b.open("process.Process/Start", m{"process": m{"cmd": "/bin/sleep", "args": []string{"1000"}}}, func(r *http.Request) { r.Header.Set("Connect-Timeout-Ms", "200") })
	pid := s.begun()
	if _, _, err := s.rest(); err == nil || !strings.Contains(err.Error(), "deadline_exceeded") {
		t.Errorf("it ends with %v", err)
	}
	eventually(t, "the process is gone", func() bool {
		out, _ := b.sh("ls /proc")
		return !strings.Contains("\n"+out, "\n"+jsonText(pid)+"\n")
	})
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestNoKeepaliveKillsEnvd(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	req := b.request("POST", "/process.Process/Start", bytes.NewReader(frame(m{"process": m{"cmd": "/bin/cat"}})))
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Keepalive-Ping-Interval", "0")
	if res, err := http.DefaultClient.Do(req); err == nil {
		_, _, err = (&stream{t: t, body: res.Body}).rest()
		res.Body.Close()
		if err == nil {
			t.Error("the stream ends well")
		}
	}
	eventually(t, "the sandbox is gone", func() bool { return b.state() == "gone" })
}

func TestKeepalive(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s := b.open("process.Process/Start", m{"process": m{"cmd": "/bin/cat"}}, func(r *http.Request) { r.Header.Set("Keepalive-Ping-Interval", "1") })
	s.begun()
	for range 2 {
		if e, err := s.next(); err != nil || e.Keepalive == nil {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

func TestStreamInput(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s, pid := b.start(nil)
	send := func(frames ...any) error {
		t.Helper()
		var body bytes.Buffer
		for _, f := range frames {
			body.Write(frame(f))
		}
		req := b.request("POST", "/process.Process/StreamInput", &body)
		req.Header.Set("Content-Type", "application/connect+json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		got := &stream{t: t, body: res.Body}
		if text, err := got.raw(); err != nil || strings.TrimSpace(string(text)) != "{}" {
			return err
		}
		if _, err := got.raw(); err != io.EOF {
			return err
		}
		return nil
	}
	begin := m{"start": m{"process": m{"pid": pid}}}
	if err := send(begin, m{"data": m{"input": m{"stdin": b64("one ")}}}, m{"keepalive": m{}}, m{"data": m{"input": m{"stdin": b64("two\n")}}}); err != nil {
		t.Errorf("%v", err)
	}
	s.until("one two\n")
	for name, frames := range map[string][]any{"no start": {m{"data": m{"input": m{"stdin": ""}}}}, "nothing": {begin, m{}}, "both": {m{"start": m{}, "keepalive": m{}}},
		"no process": {m{"start": m{"process": m{"pid": 4_000_000}}}}} {
		if err := send(frames...); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	as := func(user string) string {
		s := b.open("process.Process/Start", m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", "echo $USER $HOME; pwd"}}, "stdin": false},
			func(r *http.Request) { r.SetBasicAuth(user, "") })
		s.begun()
		out, _, err := s.rest()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := as("root"); out != "root /root\n/root\n" {
		t.Errorf("%q", out)
	}
	if out := as("user"); out != "user /home/user\n/home/user\n" {
		t.Errorf("%q", out)
	}
}

func TestEverythingInTheLogCanBeReadWithTheKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(m{"envVars": m{"QUIET": "hush"}})
	_, pid := b.start(m{"process": m{"cmd": "/bin/cat", "envs": m{"LOUD": "a secret"}}})
	b.rpc(http.StatusOK, "process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": b64("typed")}})
	log := string(r.call(http.StatusOK, "GET", "/v2/sandboxes/"+b.SandboxID+"/logs", nil).body)
	if !strings.Contains(log, "a secret") || !strings.Contains(log, b64("typed")) || strings.Contains(log, "hush") {
		t.Errorf("%s", log)
	}
	starts := r.Starts()
	if len(starts) != 1 || starts[0].Envs["LOUD"] != "a secret" || starts[0].Sandbox != b.SandboxID {
		t.Errorf("%+v", starts)
	}
}
