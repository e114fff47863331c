package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/wire"
)

// connected is a machine that was connected, and a program in its surroundings.
func connected(t *testing.T, mode wire.Mode) (*Program, *identity.Identity, *bytes.Buffer) {
	t.Helper()
	home := t.TempDir()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	id := &identity.Identity{RunnerID: "rnr_1", Name: `Ann's "50%" $HOME <box>`, Team: "acme", Server: "https://parawork.example.com", Key: key, ServerKey: pub, Mode: mode,
		Dir: filepath.Join(home, ".parawork", "runner", "parawork.example.com", "box")}
	if err := os.MkdirAll(id.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := id.Save(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := map[string]string{"HOME": home, "PATH": "/opt/tools/bin:/usr/bin", "HTTPS_PROXY": "http://ann:p%20w$@proxy:3128"}
	self := filepath.Join(home, "Downloads", "parawork")
	if err := os.MkdirAll(filepath.Dir(self), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, []byte("the program"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Env: func(k string) string { return env[k] }, Version: "1.2.3",
		Self: func() (string, error) { return self, nil }}, id, &out
}

func TestTheUnitMeansWhatItSays(t *testing.T) {
	t.Parallel()
	p, id, _ := connected(t, wire.Direct)
	s, err := p.serviceOf(id, "/home/ann/.parawork/bin/parawork")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(s.unit(id.Name))
	for _, want := range []string{
		`ExecStart="/home/ann/.parawork/bin/parawork" "runner" "--service" "--server" "https://parawork.example.com" "--name" "Ann's \"50%%\" $$HOME <box>" "--dangerous"` + "\n",
		`Environment="HTTPS_PROXY=http://ann:p%%20w$@proxy:3128"` + "\n", `Environment="PATH=/opt/tools/bin:/usr/bin"` + "\n",
		"KillMode=process\n", "Restart=on-failure\n", "WantedBy=default.target\n", `Description=Parawork: this machine as a place to work (Ann's "50%%"`,
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("%q is not in\n%s", want, unit)
		}
	}
	list := string(s.plist())
	for _, want := range []string{"<string>Ann&#39;s &#34;50%&#34; $HOME &lt;box&gt;</string>", "<key>AbandonProcessGroup</key><true/>", "<key>SuccessfulExit</key><false/>", "<string>--dangerous</string>"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in\n%s", want, list)
		}
	}
}

func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's")
	}
	p, id, out := connected(t, wire.Bubblewrap)
	var ran []string
	fail := ""
	p.Exec = func(_ context.Context, name string, args ...string) (string, error) {
		line := name + " " + strings.Join(args, " ")
		ran = append(ran, line)
		if fail != "" && strings.Contains(line, fail) {
			return "Failed to connect to bus", errors.New("exit status 1")
		}
		return "", nil
	}
	if code := p.Run(t.Context(), []string{"install", "--print"}); code != 0 || len(ran) != 0 || !strings.Contains(out.String(), "ExecStart=") {
		t.Errorf("%d, %q\n%s", code, ran, out)
	}
	if code := p.Run(t.Context(), []string{"install"}); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	s, err := p.serviceOf(id, "")
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: a proxy's password is for nobody else", st, err)
	}
	copied := filepath.Join(p.Env("HOME"), ".parawork/bin/parawork")
	if text, err := os.ReadFile(copied); err != nil || string(text) != "the program" {
		t.Errorf("the program stays in Downloads: %q, %v", text, err)
	}
	if text, err := os.ReadFile(s.file); err != nil || !strings.Contains(string(text), `"`+copied+`"`) || strings.Contains(string(text), "--dangerous") {
		t.Errorf("%s, %v", text, err)
	}
	if got := strings.Join(ran, "\n"); !strings.Contains(got, "systemctl --user daemon-reload\nsystemctl --user enable --now "+s.name) || !strings.Contains(got, "enable-linger") {
		t.Errorf("%s", got)
	}
	if code := p.Run(t.Context(), []string{"uninstall"}); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	if _, err := os.Stat(s.file); err == nil {
		t.Error("the unit is there")
	}
	fail = "enable --now"
	out.Reset()
	if code := p.Run(t.Context(), []string{"install"}); code != 1 || !strings.Contains(out.String(), "Failed to connect to bus") || !strings.Contains(out.String(), "tmux") {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestAServiceWithoutIsolationIsSaidTwice(t *testing.T) {
	t.Parallel()
	p, _, out := connected(t, wire.Direct)
	p.Exec = func(context.Context, string, ...string) (string, error) { return "", nil }
	if code := p.Run(t.Context(), []string{"install"}); code != 1 || !strings.Contains(out.String(), "--dangerous") {
		t.Errorf("%d\n%s", code, out)
	}
	if code := p.Run(t.Context(), []string{"install", "--dangerous", "--print"}); code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestWhereTheControlSocketIs(t *testing.T) {
	t.Parallel()
	short, err := controlPath("/home/ann/.parawork/runner/x/y")
	if err != nil || short != "/home/ann/.parawork/runner/x/y/control.sock" {
		t.Errorf("%s, %v", short, err)
	}
	deep := "/home/" + strings.Repeat("a", 100)
	a, errA := controlPath(deep)
	b, errB := controlPath(deep + "b")
	if errA != nil || errB != nil || a == b || len(a) > maxSocket {
		t.Errorf("%s, %s, %v, %v", a, b, errA, errB)
	}
}
