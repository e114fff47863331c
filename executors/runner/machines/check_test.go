package machines_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store/storetest"
)

// What a machine says of itself is made to fit, and where a word decides something, one that is not known is refused.
func TestWhatAMachineSaysIsMadeToFit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	_, token := h.token("", true)
	enrol := func(change func(*wire.Hello)) (wire.Hello, error) {
		t.Helper()
		said := hello()
		change(&said)
		done, err := h.Enrol(t.Context(), wire.Enrol{Token: token, PublicKey: newDevice(h).key.Public().(ed25519.PublicKey), Hello: said}, "192.0.2.8")
		if err != nil {
			return wire.Hello{}, err
		}
		m, err := h.Known(t.Context(), done.RunnerID)
		return m.Hello, err
	}
	got, err := enrol(func(h *wire.Hello) {
		h.Hostname = "evil\u202ename\x1b]0;x\x07\n\xff" + strings.Repeat("é", 300)
		h.Mode, h.Boundary, h.SharedHome, h.Image = wire.Direct, "microvm", false, "ubuntu"
		h.CPUs, h.MemoryMB, h.StartMs, h.Limits.CPUs, h.Limits.Sandboxes = -1, 1<<62, -5, -3, 1<<40
		h.Load = wire.Load{CPU: 1e300, MemoryUsedMB: -1, Sandboxes: -2}
		h.Folders = []wire.Folder{{Path: "/home/ada/code", Access: wire.Full}}
		h.Share = ""
		h.Programs = map[string]bool{"claude": true, "rm -rf": false}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Programs) != 1 || !got.Programs["claude"] {
		t.Errorf("programs: %v", got.Programs)
	}
	if n := got.Hostname; strings.ContainsAny(n, "\u202e\x1b\x07\n") || !utf8.ValidString(n) || len(n) > 253 || !strings.HasPrefix(n, "evilname") {
		t.Errorf("%q", n)
	}
	if got.Boundary != "none" || !got.SharedHome || got.Image != "" || got.Share != machines.ShareOwner {
		t.Errorf("%+v", got)
	}
	if got.CPUs != 0 || got.MemoryMB != 1<<40 || got.StartMs != 0 || got.Limits.CPUs != 0 || got.Limits.Sandboxes != 1<<20 || got.Load != (wire.Load{CPU: 1}) {
		t.Errorf("%+v", got)
	}
	if got.Folders[0].Name != "code" {
		t.Errorf("%+v", got.Folders)
	}
	if got, err = enrol(func(h *wire.Hello) { h.Boundary = "none" }); err != nil || got.Boundary != "container" {
		t.Errorf("a container that calls itself open: %+v %v", got.Boundary, err)
	}
	for name, change := range map[string]func(*wire.Hello){
		"system":         func(h *wire.Hello) { h.OS = "plan9" },
		"architecture":   func(h *wire.Hello) { h.Arch = "mips" },
		"mode":           func(h *wire.Hello) { h.Mode = "" },
		"access":         func(h *wire.Hello) { h.Access = "everything" },
		"share":          func(h *wire.Hello) { h.Share = "world" },
		"network":        func(h *wire.Hello) { h.Network = "lan" },
		"folder":         func(h *wire.Hello) { h.Folders[0].Path = "/home/../etc" },
		"folder's form":  func(h *wire.Hello) { h.Folders[0].Path = "/a\nb" },
		"folder's right": func(h *wire.Hello) { h.Folders[0].Access = "" },
		"hosts":          func(h *wire.Hello) { h.Allow = make([]string, 501) },
		"size": func(h *wire.Hello) {
			for range 99 {
				h.Folders = append(h.Folders, wire.Folder{Path: "/" + strings.Repeat("x", 4000), Access: wire.Full})
			}
		},
	} {
		if _, err := enrol(change); fault.CodeOf(err) != "runner_hello_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Programs are read when they change, and only files are offered.
func TestDownloads(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		tmp := filepath.Join(dir, ".new")
		if err := os.WriteFile(tmp, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(second, "parawork-linux-amd64", "one")
	write(second, "parawork-linux-arm64", "hidden by the first folder")
	write(first, "parawork-linux-arm64", "arm")
	if err := os.Mkdir(filepath.Join(first, "parawork-darwin-arm64"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := machines.NewDownloads("", first, second)
	got := map[string]machines.Download{}
	for _, one := range d.List() {
		got[one.File()] = one
	}
	const one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
	if a := got["parawork-linux-amd64"]; a.SHA256 != one || a.Size != 3 || a.Reason != "" {
		t.Errorf("%+v", a)
	}
	if a := got["parawork-linux-arm64"]; a.Size != 3 {
		t.Errorf("%+v", a)
	}
	if a := got["parawork-darwin-arm64"]; a.Reason == "" || a.SHA256 != "" {
		t.Errorf("a folder: %+v", a)
	}
	if a := got["parawork-darwin-amd64"]; a.Reason == "" {
		t.Errorf("missing: %+v", a)
	}
	write(second, "parawork-linux-amd64", "two")
	f, a, _, err := d.Open("parawork-linux-amd64")
	if err != nil || a.SHA256 == one {
		t.Fatalf("%+v %v", a, err)
	}
	f.Close()
	for _, name := range []string{"", ".new", "../parawork-linux-amd64", "parawork-linux-mips"} {
		if _, _, _, err := d.Open(name); !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
