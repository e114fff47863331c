//go:build linux

package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// hooking runs script in a terminal, where $hook is what an agent's hooks run.
func hooking(id, script string) guest.ProcessSpec {
	return tty(shell(id, `hook="env GUEST_TEST_ROLE=hook $PARAWORK_GUEST"; `+script))
}

// hooks opens the stream of hooks.
func (p *place) hooks(since uint64) *client.Hooks {
	p.t.Helper()
	h, err := p.Hooks(within(p.t), since)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = h.Close() })
	return h
}

func next(t *testing.T, h *client.Hooks) guest.HookRecord {
	t.Helper()
	r, err := h.Next()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// touch makes an empty file in the worktree.
func (p *place) touch(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.root, name), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// call reads until the next call, and says whether Synced came before it.
func call(t *testing.T, h *client.Hooks) (c guest.HookCall, synced bool) {
	t.Helper()
	for {
		r := next(t, h)
		if r.Call != nil {
			return *r.Call, synced
		}
		synced = synced || r.Synced
	}
}

func TestHooksAreReportedAndAnswered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if h, err := p.Hello(within(t)); err != nil || !h.Hooks {
		t.Fatalf("hello %+v, %v", h, err)
	}
	h := p.hooks(0)
	p.start(hooking("a", `echo '{"hook_event_name":"Stop","n":1}' | $hook claude-code; echo "first: $?"
		echo '{"hook_event_name":"PermissionRequest","tool_response":"secret"}' | $hook --wait 60s claude-code; echo; echo "second: $?"; read x`))
	one, _ := call(t, h)
	if one.Process != "a" || one.Agent != "claude-code" || one.Waits || string(one.Event) != `{"hook_event_name":"Stop","n":1}` || one.At == 0 {
		t.Fatalf("first %+v", one)
	}
	two, _ := call(t, h)
	if two.Process != "a" || !two.Waits || string(two.Event) != `{"hook_event_name":"PermissionRequest"}` {
		t.Fatalf("second %+v %s", two, two.Event)
	}
	// A host that was cut off finds it waiting.
	again, synced := call(t, p.hooks(two.Seq))
	if again.ID != two.ID || synced {
		t.Fatalf("again %+v, %v", again, synced)
	}
	out := json.RawMessage(`{"decision":"é\"allow"}`)
	for range 2 { // asked again, it says again that it has arrived
		if err := p.AnswerHook(within(t), two.ID, out); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.AnswerHook(within(t), two.ID, json.RawMessage(`{"decision":"deny"}`)); !fault.Is(err, fault.Gone) {
		t.Fatalf("a second answer: %v", err)
	}
	if r := next(t, h); r.Ended != two.ID {
		t.Fatalf("then %+v", r)
	}
	eventually(t, "the answer is printed", func() bool {
		o, err := p.Output(within(t), "a", guest.Terminal, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		got := until(t, o, "second: 0")
		return strings.Contains(got, `{"decision":"é\"allow"}`) && strings.Contains(got, "first: 0")
	})
}

// Whatever happens to the hook, the guest or the host: the agent gets no opinion and goes on.
func TestHooksThatGetNoAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h := p.hooks(0)
	for name, script := range map[string]string{
		"killed":     `echo '{"a":1}' | $hook --wait 60s codex & until [ -e told ]; do sleep 0.02; done; kill $!; wait $!; echo "gone: $?"; read x`,
		"no_opinion": `echo '{"a":1}' | $hook --wait 60s codex; echo "gone: $?"; read x`,
		"timeout":    `echo '{"a":1}' | $hook --wait 2s codex; echo "gone: $?"; read x`,
	} {
		p.start(hooking(name, script))
		c, _ := call(t, h)
		switch name {
		case "no_opinion":
			if err := p.AnswerHook(within(t), c.ID, nil); err != nil {
				t.Fatal(err)
			}
		case "killed":
			p.touch("told")
		}
		for r := next(t, h); r.Ended != c.ID; r = next(t, h) {
		}
		if name != "no_opinion" {
			if err := p.AnswerHook(within(t), c.ID, json.RawMessage(`{}`)); !fault.Is(err, fault.Gone) {
				t.Errorf("%s: %v", name, err)
			}
		}
		o, err := p.Output(within(t), name, guest.Terminal, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := until(t, o, "gone: 0"); strings.Contains(got, "{") {
			t.Errorf("%s printed %q", name, got)
		}
		_ = o.Close()
	}
	// Nobody to tell, nothing to say, or somebody who is not who they say.
	p.start(hooking("b", `echo '{"a":1}' | PARAWORK_HOOKS=/nowhere/s $hook --wait 60s codex; echo "one: $?"
		echo '{"a":1}' | PARAWORK_HOOK_TOKEN=other $hook --wait 60s codex; echo "two: $?"
		echo 'no json' | $hook --wait 60s codex; echo "three: $?"
		echo '["a"]' | $hook --wait 60s codex; echo "four: $?"
		head -c 40000000 /dev/zero | $hook --wait 60s codex; echo "five: $?"`))
	p.wait("b")
	if got := p.all("b", guest.Terminal); got != "one: 0\r\ntwo: 0\r\nthree: 0\r\nfour: 0\r\nfive: 0\r\n" {
		t.Errorf("printed %q", got)
	}
}

func TestHooksEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h := p.hooks(0)
	p.start(hooking("a", `(echo '{"a":1}' | setsid $hook --wait 60s codex) & until [ -e told ]; do sleep 0.02; done; echo "$PARAWORK_HOOK_TOKEN" >token; exit 0`))
	c, _ := call(t, h)
	p.touch("told")
	p.wait("a")
	for r := next(t, h); r.Ended != c.ID; r = next(t, h) {
	}
	token, err := os.ReadFile(filepath.Join(p.root, "token"))
	if err != nil || len(token) < 20 {
		t.Fatalf("token %q, %v", token, err)
	}
	// The token of a process that has ended says nothing; commands without a terminal have none.
	p.start(hooking("b", `echo '{"b":1}' | PARAWORK_HOOK_TOKEN=`+strings.TrimSpace(string(token))+` $hook codex; echo '{"b":2}' | $hook codex; read x`))
	if c, _ := call(t, h); c.Process != "b" || string(c.Event) != `{"b":2}` {
		t.Errorf("heard %+v", c)
	}
	p.start(shell("c", `env | grep -c PARAWORK_HOOK`))
	p.wait("c")
	if got := p.all("c", guest.Stdout); got != "0\n" {
		t.Errorf("a command has %s of them", got)
	}
}

// What agents say while the host is away is kept, bounded.
func TestHooksWaitForTheHost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(hooking("a", `for i in 1 2 3; do echo "{\"n\":$i}" | $hook codex; done; echo done; while read x; do i=$((i+1)); echo "{\"n\":$i}" | $hook codex; done`))
	o, err := p.Output(within(t), "a", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	until(t, o, "done")
	h := p.hooks(0)
	var last guest.HookCall
	for i := 1; i <= 3; i++ {
		if last, _ = call(t, h); string(last.Event) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("%d: %s", i, last.Event)
		}
	}
	// Another host does not get earlier records again, except those after the number it names.
	if again, _ := call(t, p.hooks(last.Seq-1)); again.ID != last.ID {
		t.Errorf("again %+v", again)
	}
	in, err := p.Input(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	say := func(i int) {
		t.Helper()
		if err := in.Write(in.Last+uint64(i-3), []byte("\n")); err != nil {
			t.Fatal(err)
		}
		if last, _ = call(t, h); string(last.Event) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("%d: %s", i, last.Event)
		}
	}
	say(4)
	fresh := p.hooks(0)
	if r := next(t, fresh); !r.Synced {
		t.Errorf("a new host heard %+v", r)
	}
	say(5)
	// That the guest has given the fourth it knows at the latest when it gives the fifth.
	if c, _ := call(t, fresh); c.Seq <= last.Seq-2 {
		t.Errorf("a new host heard %s", c.Event)
	}
}

// Agents are hostile: too many hooks, too large ones, ones that hang.
func TestHooksAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h := p.hooks(0)
	p.start(hooking("a", `echo "$PARAWORK_HOOK_TOKEN" >token; echo "$PARAWORK_HOOKS" >sock; printf '{"hook_event_name":"PreToolUse","tool_input":{"x":"%s"}}' "$(head -c 3000000 /dev/zero | tr '\0' a)" | $hook codex; read x`))
	c, _ := call(t, h)
	if len(c.Event) > guest.MaxHookEvent || !strings.Contains(string(c.Event), "PreToolUse") {
		t.Fatalf("%d bytes", len(c.Event))
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(p.root, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	token, sock := read("token"), read("sock")
	if st, err := os.Stat(sock); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket %v, %v", st, err)
	}
	if st, err := os.Stat(filepath.Dir(sock)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("its folder %v, %v", st, err)
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	refused := 0
	for range 3 * guest.MaxHooksOpen {
		conn, err := net.Dial("unix", sock)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := fmt.Fprintf(conn, `{"token":%q,"agent":"x","waits":true,"event":{"a":1}}`, token); err != nil {
			refused++
			continue
		}
	}
	for _, c := range conns[len(conns)-guest.MaxHooksOpen:] {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 1)); n == 0 && err != nil && !os.IsTimeout(err) {
			refused++
		}
	}
	if refused < guest.MaxHooksOpen {
		t.Errorf("only %d of %d were refused", refused, len(conns))
	}
	for range guest.MaxHooksOpen {
		if c, _ := call(t, h); !c.Waits {
			t.Errorf("heard %+v", c)
		}
	}
	big, err := net.Dial("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	_, _ = fmt.Fprintf(big, `{"token":%q,"agent":"x","event":{"a":"%s"}}`, token, strings.Repeat("a", 2*guest.MaxHookEvent))
	if b, err := io.ReadAll(big); len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
}
