package e2btest_test

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

func TestASandboxIsMadeUsedAndEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(m{"metadata": m{"a": "b"}, "envVars": m{"GIVEN": "yes"}})
	if out, end := b.sh("id -un; pwd; echo $HOME $USER $GIVEN $E2B_SANDBOX; ls -d /work /home/* 2>/dev/null; exit 3"); end.ExitCode != 3 ||
		!strings.HasSuffix(out, "/home/user\n/home/user user yes true\n/home/user\n") {
		t.Errorf("%q, %+v", out, end)
	}
	if len(r.Alive()) != 1 {
		t.Errorf("alive: %+v", r.Alive())
	}
	r.call(http.StatusNoContent, "DELETE", "/sandboxes/"+b.SandboxID, nil)
	r.call(http.StatusNotFound, "DELETE", "/sandboxes/"+b.SandboxID, nil)
	b.send(http.StatusBadGateway, b.request("GET", "/health", nil))
	if len(r.All()) != 0 {
		t.Errorf("left: %+v", r.All())
	}
}

func TestATerminal(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	s, pid := b.start(m{"process": m{"cmd": "/bin/bash", "args": []string{"-i"}, "envs": m{"PS1": "> ", "TERM": "xterm"}}, "pty": m{"size": m{"cols": 80, "rows": 24}}})
	typed := func(text string) {
		b.rpc(http.StatusOK, "process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"pty": base64.StdEncoding.EncodeToString([]byte(text))}})
	}
	typed("stty size; echo d''one\r")
	s.until("24 80\r\n")
	s.until("done")
	b.rpc(http.StatusOK, "process.Process/Update", m{"process": m{"pid": pid}, "pty": m{"size": m{"cols": 100, "rows": 30}}})
	typed("stty size\r")
	s.until("30 100\r\n")
	typed("exit 4\r")
	if _, end, err := s.rest(); err != nil || end == nil || end.ExitCode != 4 || !end.Exited {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestPauseFreezesAndConnectGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(nil)
	s, pid := b.start(m{"process": m{"cmd": "/bin/sh", "args": []string{"-c", "echo 1 > ~/kept; while read x; do echo got $x; done"}}})
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+b.SandboxID+"/pause", nil)
	if _, _, err := s.rest(); err == nil {
		t.Error("the stream of a paused sandbox ends well")
	}
	r.call(http.StatusConflict, "POST", "/sandboxes/"+b.SandboxID+"/pause", nil)
	r.call(http.StatusNotFound, "POST", "/sandboxes/"+b.SandboxID+"/timeout", m{"timeout": 60})
	b.send(http.StatusBadGateway, b.request("GET", "/health", nil))
	if len(r.Alive()) != 0 || len(r.All()) != 1 {
		t.Errorf("alive %+v of %+v", r.Alive(), r.All())
	}
	r.call(http.StatusCreated, "POST", "/v2/sandboxes/"+b.SandboxID+"/connect", m{"timeout": 60})
	r.call(http.StatusOK, "POST", "/v2/sandboxes/"+b.SandboxID+"/connect", nil)
	again := b.open("process.Process/Connect", m{"process": m{"pid": pid}}, nil)
	if got := again.begun(); got != pid {
		t.Errorf("pid %d, before %d", got, pid)
	}
	b.rpc(http.StatusOK, "process.Process/SendInput", m{"process": m{"pid": pid}, "input": m{"stdin": base64.StdEncoding.EncodeToString([]byte("it\n"))}})
	again.until("got it")

	r.call(http.StatusNoContent, "POST", "/sandboxes/"+b.SandboxID+"/pause", m{"memory": false})
	r.call(http.StatusCreated, "POST", "/v2/sandboxes/"+b.SandboxID+"/connect", nil)
	b.rpc(http.StatusNotFound, "process.Process/SendSignal", m{"process": m{"pid": pid}, "signal": "SIGNAL_SIGKILL"})
	if out, _ := b.sh("cat ~/kept"); out != "1\n" {
		t.Errorf("the disk has %q", out)
	}
}

func TestSandboxesDoNotMeet(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	a, b := r.create(nil), r.create(nil)
	for _, one := range []*box{a, b} {
		one.rpc(http.StatusOK, "filesystem.Filesystem/MakeDir", m{"path": "/work/x"})
		one.sh("echo " + one.SandboxID + " > /work/x/f; touch /tmp/" + one.SandboxID)
	}
	for _, one := range []*box{a, b} {
		if out, _ := one.sh("cat /work/x/f; ls /tmp; ls -ld /work/x | cut -d' ' -f3"); out != one.SandboxID+"\n"+one.SandboxID+"\nuser\n" {
			t.Errorf("%q", out)
		}
	}
	pids, _ := a.sh("ls /proc | grep -c '^[0-9]'")
	if n, _ := strconv.Atoi(strings.TrimSpace(pids)); n == 0 || n > 10 {
		t.Errorf("%d processes are seen", n)
	}
}
