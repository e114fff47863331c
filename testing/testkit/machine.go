package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testlink"
)

// Machine is a member's own machine that is connected to an instance: the real program, with a home of its own.
type Machine struct {
	ID, Name string
	Home     string // the owner's home; everything the program keeps is below it

	h     *Instance
	flags []string
	cmd   *exec.Cmd
	lines *lineLog
	done  chan struct{}
	over  bool // it ended by itself, and would again
}

// Runner is what tests need of a machine's JSON.
type Runner struct {
	ID, Name, State, Mode string
	Available             bool
	Reason                string
	OfflineReason         string `json:"offline_reason"`
	OfflineAt             int64  `json:"offline_at"`
}

// Ping makes both ends of an instance's tunnels notice silence within two seconds: a busy machine is silent for one. It does so in programs that tests may kill, and in no other.
const Ping = "PARAWORK_TUNNEL_PING=600ms"

// Connect enrols a machine with a new token, starts its program with these flags, and waits until the instance shows it online.
func (h *Instance) Connect(name string, flags ...string) *Machine {
	h.t.Helper()
	m := &Machine{Name: name, h: h, Home: filepath.Join(h.Dir, "machine-"+strings.ReplaceAll(name, " ", "-")), flags: flags}
	if err := os.MkdirAll(m.Home, 0o755); err != nil {
		h.t.Fatal(err)
	}
	var made struct{ Token string }
	h.API("POST", "/teams/"+h.Team+"/runners", map[string]any{"name": name}, &made)
	m.start([]string{"--token", made.Token})
	h.t.Cleanup(m.close)
	h.Wait("the machine is shown", func() bool {
		var all struct{ Items []Runner }
		h.API("GET", "/teams/"+h.Team+"/runners", nil, &all)
		for _, r := range all.Items {
			if r.Name == name && r.State == "online" {
				m.ID = r.ID
			}
		}
		if m.ID == "" {
			m.alive()
		}
		return m.ID != ""
	})
	return m
}

// alive fails the test when the program has ended.
func (m *Machine) alive() {
	m.h.t.Helper()
	select {
	case <-m.done:
		m.h.t.Fatalf("the machine's program ended:\n%s", m.lines)
	default:
	}
}

func (m *Machine) start(flags []string, env ...string) {
	m.h.t.Helper()
	url := m.h.URL
	if m.h.link != nil {
		url = m.h.link.URL
	}
	args := append([]string{"runner", "--server", url, "--name", m.Name}, append(flags, m.flags...)...)
	cmd := exec.Command(server(m.h.t), args...)
	cmd.Env = append(os.Environ(), "PARAWORK_GUEST="+filepath.Join(built.dir, "parawork-guest"), "HOME="+m.Home, raceOptions, Ping)
	cmd.Env = append(cmd.Env, env...)
	r, w, err := os.Pipe()
	if err != nil {
		m.h.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := m.h.begin(testlink.Machine, cmd); err != nil {
		m.h.t.Fatal(err)
	}
	_ = w.Close()
	m.cmd, m.lines, m.done = cmd, newLineLog(), make(chan struct{})
	go m.lines.follow(r)
	go func(done chan struct{}) { _ = cmd.Wait(); close(done) }(m.done)
}

// Boot starts the machine's program again, after Kill, Terminate or Ended, with further flags if need be.
func (m *Machine) Boot(flags ...string) {
	m.h.t.Helper()
	m.over = false
	m.start(flags)
}

// Gone says that the program has ended, and left nothing that must be.
func (m *Machine) Gone() { m.over = true }

// Ended waits until the program ends by itself: the server let it go for good.
func (m *Machine) Ended() {
	m.h.t.Helper()
	select {
	case <-m.done:
		m.over = true
	case <-time.After(Deadline):
		m.h.t.Fatalf("the machine's program does not end:\n%s", m.lines)
	}
}

// Kill ends the machine's program at once, as kill -9 does. Guests go on.
func (m *Machine) Kill() {
	m.h.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		m.h.t.Fatal(err)
	}
	<-m.done
}

// Terminate asks the machine's program to stop and waits for it.
func (m *Machine) Terminate() {
	m.h.t.Helper()
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-time.After(Deadline):
		m.h.t.Fatalf("the machine's program did not stop:\n%s", m.lines)
	}
}

// DieAt runs do with a machine whose program kills itself at a point do leads it to; then one without the point takes over.
func (m *Machine) DieAt(at failpoint.Point, do func()) {
	m.h.t.Helper()
	m.Terminate()
	m.start(nil, "PARAWORK_KILL_AT="+string(at))
	m.Online()
	do()
	select {
	case <-m.done:
	case <-time.After(Deadline):
		m.h.t.Fatalf("the machine never came to %s:\n%s\nserver:\n%s", at, m.lines, m.h.lines)
	}
	if ws, ok := m.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		m.h.t.Fatalf("the machine's program ended with %v instead of dying at %s:\n%s", m.cmd.ProcessState, at, m.lines)
	}
	m.Boot()
}

// Look reads what the instance says of the machine.
func (m *Machine) Look() Runner {
	m.h.t.Helper()
	var r Runner
	m.h.API("GET", "/runners/"+m.ID, nil, &r)
	return r
}

// Online waits until the instance says that the machine is there.
func (m *Machine) Online() {
	m.h.t.Helper()
	m.h.Wait("the machine is online", func() bool { m.alive(); return m.Look().State == "online" })
}

// Offline waits until the instance says that the machine is away.
func (m *Machine) Offline() {
	m.h.t.Helper()
	m.h.Wait("the machine is offline", func() bool { return m.Look().State == "offline" })
}

// Log is what the machine's program printed since it was started last.
func (m *Machine) Log() string { return m.lines.String() }

// WorkspaceOn is Workspace on a machine.
func (h *Instance) WorkspaceOn(m *Machine, projectID, name string) Workspace {
	h.t.Helper()
	return h.workspace(map[string]any{"project_id": projectID, "name": name, "executor": "runner", "runner_id": m.ID})
}

func (m *Machine) close() {
	if m.over {
		return
	}
	// What it runs is ended by the instance that closes first, or by its own switch: no guest outlives a test.
	stop := exec.Command(server(m.h.t), "runner", "stop", "--now", "--name", m.Name)
	stop.Env = append(os.Environ(), "HOME="+m.Home)
	select {
	case <-m.done:
		m.Boot()
	default:
	}
	if out, err := stop.CombinedOutput(); err != nil {
		m.h.t.Errorf("the machine's kill switch: %v\n%s\n%s", err, out, m.lines)
	}
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-time.After(Deadline):
		_ = m.cmd.Process.Kill()
		<-m.done
		m.h.t.Errorf("the machine's program had to be killed:\n%s", m.lines)
	}
	if code := m.cmd.ProcessState.ExitCode(); code == 66 || strings.Contains(m.lines.String(), "WARNING: DATA RACE") {
		m.h.t.Errorf("the race detector found a race in the machine's program:\n%s", m.lines)
	}
	if m.h.t.Failed() {
		m.h.t.Logf("machine:\n%s", m.lines)
	}
}
