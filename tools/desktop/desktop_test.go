//go:build linux

package desktop_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/desktop"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	os.Exit(testguest.Run(m, &guestPath))
}

// bench is a Service over a real guest and the X server of this machine.
type bench struct {
	*testing.T
	cfg    desktop.Config
	s      *desktop.Service
	set    *tools.Set
	caller tools.Caller
	place  *executors.Place
	root   string
}

func newBench(t *testing.T, kind executors.Kind) *bench {
	t.Helper()
	for _, program := range []string{"Xvnc", "openbox", "xterm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("NOT TESTED: %v", err)
		}
	}
	one := testguest.Sandbox(t, kind, guestPath, nil)
	b := &bench{T: t, place: one.At, root: one.Root}
	b.cfg = desktop.Config{Sandboxes: one, Workspaces: one, AllowBare: os.Geteuid() == 0}
	b.caller = tools.Caller{TeamID: one.At.TeamID, WorkspaceID: one.At.WorkspaceID, UserID: "usr_1"}
	b.restart()
	return b
}

// restart makes a Service that knows nothing, as a restarted server's.
func (b *bench) restart() {
	b.s = desktop.New(b.cfg)
	var err error
	if b.set, err = tools.New(tools.Config{Tools: b.s.Tools()}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) try(name string, args map[string]any) (tools.Result, error) {
	b.Helper()
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	return b.set.Call(b.Context(), b.caller, "desktop_"+name, raw)
}

func (b *bench) call(name string, args map[string]any) tools.Result {
	b.Helper()
	r, err := b.try(name, args)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return r
}

func (b *bench) refused(code, name string, args map[string]any) {
	b.Helper()
	if _, err := b.try(name, args); fault.CodeOf(err) != code {
		b.Fatalf("%s: %v, not %s", name, err, code)
	}
}

// colours counts the colours of the screen.
func (b *bench) colours() int {
	b.Helper()
	r := b.call("screenshot", nil)
	img, err := png.Decode(bytes.NewReader(r.Content[1].Data))
	if err != nil {
		b.Fatal(err)
	}
	if img.Bounds().Dx() != guest.DesktopWidth || img.Bounds().Dy() != guest.DesktopHeight {
		b.Fatalf("the picture: %v", img.Bounds())
	}
	seen := map[any]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 3 {
		for x := 0; x < img.Bounds().Dx(); x += 3 {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

// await waits until something on the desktop, which tells nobody, has happened.
func (b *bench) await(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("waited for %s", what)
		}
	}
}

func (b *bench) file(name string) string {
	data, _ := os.ReadFile(filepath.Join(b.root, name))
	return string(data)
}

// terminal opens a window whose lines go to a file.
func (b *bench) terminal(name string) {
	b.Helper()
	empty := b.colours()
	b.call("open", map[string]any{"argv": []string{"xterm", "-geometry", "80x24+100+100", "-e", "sh", "-c", "cat > " + filepath.Join(b.root, name)}})
	b.await("a window", func() bool { return b.colours() > empty })
	b.call("mouse", map[string]any{"action": "click", "x": 300, "y": 300})
}

// run tries what agents do. With types it types, too.
func (b *bench) run(types bool) {
	b.refused("desktop_not_running", "screenshot", nil)
	b.call("open", nil)
	b.terminal("one")
	b.call("type", map[string]any{"text": "Hello, World!\n"})
	if types {
		b.await("the text", func() bool { return b.file("one") == "Hello, World!\n" })
	}
	b.refused("invalid_position", "mouse", map[string]any{"action": "click", "x": 1280, "y": 3})
	b.refused("invalid_url", "open", map[string]any{"url": "file:///etc/passwd"})
	b.refused("invalid_key", "key", map[string]any{"key": "Control+Nope"})
	b.refused("desktop_program_failed", "open", map[string]any{"argv": []string{"no-such-program"}})
}

// An agent starts the desktop and a program, types into its window, and finds all of it again after a restart of the server.
func TestAgentsUseTheDesktop(t *testing.T) {
	t.Parallel()
	b := newBench(t, executors.Local)
	b.run(true)
	b.restart()
	b.call("type", map[string]any{"text": "again\n"})
	b.await("the text", func() bool { return strings.HasSuffix(b.file("one"), "!\nagain\n") })
	b.colours()
	if r := b.call("close", nil); !strings.Contains(string(r.Structured), "true") {
		t.Errorf("close: %s", r.Structured)
	}
	if _, err := os.Stat(guest.DesktopDir(b.caller.WorkspaceID)); err == nil {
		t.Error("the desktop left its folder")
	}
	b.refused("desktop_not_running", "screenshot", nil)
}

func TestADesktopInBubblewrap(t *testing.T) {
	t.Parallel()
	newBench(t, "bubblewrap").run(false) // xterm takes no keys there, for a reason that is not known
}
