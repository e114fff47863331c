package agents_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/sessions/agents"
)

// boxed gives the harness a place with a home of its own, whose files lie at another path than the agent sees.
func (h *harness) boxed(t *testing.T, host bool) (in *agents.Inside, dir string) {
	t.Helper()
	dir = t.TempDir()
	files, err := homedir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return &agents.Inside{Key: "wsp_1", Home: "/home/agent", Files: withoutFolders{files}, Host: host, Boundary: true}, dir
}

// withoutFolders is a home whose folders are made with its files, as a guest does it.
type withoutFolders struct{ *homedir.Dir }

func (w withoutFolders) WriteFile(name string, b []byte) error {
	return errors.Join(w.Mkdir(filepath.Dir(name)), w.Dir.WriteFile(name, b))
}

// In a place of its own home everything an agent needs lies there, and nothing is left on this machine.
func TestHomeInsideAPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude", "codex", "gemini", "opencode")
	in, dir := h.boxed(t, true)
	h.write(t, filepath.Join(h.source, ".claude", ".credentials.json"), `{"login":1}`, 0o600)
	h.write(t, filepath.Join(h.source, ".claude.json"), `{"oauthAccount":{"emailAddress":"me@example.org"}}`, 0o600)
	plan := func(agent string, a agents.Account, more ...func(*agents.Launch)) agents.Plan {
		t.Helper()
		l := h.launch()
		l.Account, l.Inside, l.Hooks = a, in, true
		for _, f := range more {
			f(&l)
		}
		p, err := h.Plan(agent, l)
		if err != nil {
			t.Fatalf("%s: %v", agent, err)
		}
		for name, value := range p.Env {
			if strings.Contains(value, h.homes) || strings.Contains(value, h.source) || strings.Contains(value, dir) {
				t.Errorf("%s: %s=%s names a folder of the host", agent, name, value)
			}
		}
		return p
	}
	p := plan(agents.ClaudeCode, agents.Account{ID: "acc_1", InHome: true, Kind: agents.ExistingLogin})
	for name, want := range map[string]string{"HOME": "/home/agent", "TMPDIR": "/tmp", "CLAUDE_CODE_TMPDIR": "/tmp",
		"CLAUDE_CONFIG_DIR": "/home/agent/.accounts/acc_1/.claude", "CODEX_HOME": "/home/agent/.codex", "XDG_CONFIG_HOME": "/home/agent/.config"} {
		if p.Env[name] != want {
			t.Errorf("%s=%q, want %q", name, p.Env[name], want)
		}
	}
	if !strings.HasPrefix(p.Env["PATH"], agents.InsideBin+":") {
		t.Errorf("PATH=%q", p.Env["PATH"])
	}
	raw, err := os.ReadFile(filepath.Join(dir, ".accounts/acc_1/.claude/.claude.json"))
	var doc map[string]any
	if err != nil || json.Unmarshal(raw, &doc) != nil || doc["oauthAccount"] == nil {
		t.Errorf("presets: %s, %v", raw, err)
	}
	if projects := doc["projects"].(map[string]any); projects[h.launch().Worktree] == nil || projects[h.worktrees] != nil {
		t.Errorf("trusted: %v", projects)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, ".accounts/acc_1/.claude/.credentials.json")); err != nil || string(raw) != `{"login":1}` {
		t.Errorf("login: %q, %v", raw, err)
	}
	// A second member's account lies beside it, and either goes on with what was said.
	other := plan(agents.ClaudeCode, agents.Account{ID: "acc_2", InHome: true, Kind: agents.Terminal}, func(l *agents.Launch) { l.UserID = "usr_2" })
	if other.Env["CLAUDE_CONFIG_DIR"] != "/home/agent/.accounts/acc_2/.claude" || other.Env["HOME"] != "/home/agent" {
		t.Errorf("another member: %v", other.Env)
	}
	h.write(t, filepath.Join(dir, ".accounts/acc_2/.claude/projects/-w", h.launch().Conversation+".jsonl"), "{}\n", 0o600)
	if p := plan(agents.ClaudeCode, agents.Account{ID: "acc_1", Kind: agents.Terminal}, func(l *agents.Launch) { l.Resume = true }); !p.Resumed {
		t.Error("the conversation is not gone on with")
	}
	for _, agent := range []string{agents.Codex, agents.Gemini, agents.OpenCode, agents.Shell} {
		plan(agent, agents.Account{ID: "acc_3", Kind: agents.Terminal})
	}
	if p, err := h.SetupPlan("true", agents.Launch{UserID: "usr_1", Inside: in}); err != nil || p.Env["HOME"] != "/home/agent" || p.Env["PATH"] == "" {
		t.Errorf("setup: %v, %v", p.Env, err)
	}
	if entries, err := os.ReadDir(h.homes); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on the host: %v, %v", entries, err)
	}
	// What an agent made of its home leads nowhere else.
	victim := t.TempDir()
	for _, name := range []string{".gemini", ".accounts"} {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, name)), os.Symlink(victim, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	l := h.launch()
	l.Inside = in
	if _, err := h.Plan(agents.Gemini, l); err == nil {
		t.Error("a link out of the home was followed")
	}
	l.Account = agents.Account{ID: "acc_1", Kind: agents.Terminal}
	if _, err := h.Plan(agents.ClaudeCode, l); err == nil {
		t.Error("a link out of the home was followed")
	}
	if left, _ := os.ReadDir(victim); len(left) != 0 {
		t.Errorf("written behind a link: %v", left)
	}
}

func TestEditsOfOneHomeInsideTakeTurns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude")
	in, dir := h.boxed(t, true)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			l := h.launch()
			l.Inside, l.Worktree = in, "/work/"+string(rune('a'+i))
			if _, err := h.Plan(agents.ClaudeCode, l); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	raw, err := os.ReadFile(filepath.Join(dir, ".claude/.claude.json"))
	var doc struct{ Projects map[string]any }
	if err != nil || json.Unmarshal(raw, &doc) != nil || len(doc.Projects) != 20 {
		t.Errorf("%d of 20 edits stayed: %v", len(doc.Projects), err)
	}
}

// A place with programs of its own is asked for them by name; this machine's say nothing about it.
func TestProgramsOfAnImage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{agents.Codex: {Enabled: true, Command: "/opt/host/only/codex"}, agents.OpenCode: {Enabled: false}, "mine": {Enabled: true, Command: "/opt/mine/run"}})
	in, _ := h.boxed(t, false)
	l := h.launch()
	l.Inside = in
	for agent, want := range map[string]string{agents.ClaudeCode: "claude", agents.Codex: "codex", "mine": "/opt/mine/run", agents.Shell: "/bin/sh"} {
		p, err := h.Plan(agent, l)
		if err != nil || p.Argv[0] != want {
			t.Errorf("%s: %q, %v", agent, p.Argv, err)
		}
		if _, set := p.Env["PATH"]; set {
			t.Errorf("%s: the image's PATH is overwritten", agent)
		}
	}
	if _, err := h.Plan(agents.OpenCode, l); fault.CodeOf(err) != "agent_disabled" {
		t.Errorf("turned off: %v", err)
	}
	l.Inside = nil
	if _, err := h.Plan(agents.ClaudeCode, l); fault.CodeOf(err) != "agent_not_installed" {
		t.Errorf("on this machine: %v", err)
	}
	own := *in
	own.Machine = true
	if got := h.NotFound(agents.ClaudeCode, &own); !strings.Contains(got, "not on this machine") || !strings.Contains(got, "npm install -g @anthropic-ai/claude-code") || !strings.Contains(got, "runner.json") {
		t.Errorf("on a machine: %q", got)
	}
	if got := h.NotFound(agents.ClaudeCode, in); got != "Claude Code is not in this sandbox's image. Add it to the image with: npm install -g @anthropic-ai/claude-code" {
		t.Error(got)
	}
	if got := h.NotFound("mine", in); !strings.Contains(got, `"run"`) {
		t.Error(got)
	}
	in.Host = true
	if got := h.NotFound(agents.ClaudeCode, in); !strings.Contains(got, "Destroy the sandbox") {
		t.Error(got)
	}
}

// Places that use programs of this machine are shown what the agents' programs need, and never a home or the server's own folder.
func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	settings := map[string]agents.Settings{"venv": {Enabled: true, Command: "venv"}}
	h := newHarnessWith(t, func(c *agents.Config) { c.Paths = []string{"/opt/of-config"} }, settings)
	root := filepath.Dir(h.homes)
	apps := filepath.Join(t.TempDir(), "apps") // elsewhere: what lies beside the homes is the server's own
	apps, err := filepath.EvalSymlinks(filepath.Dir(apps))
	if err != nil {
		t.Fatal(err)
	}
	link := func(to, at string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(to, at)); err != nil {
			t.Fatal(err)
		}
	}
	// Claude as npm installs it, Codex as a script that node runs, node and Gemini as files of their own, one in the server's folder.
	h.write(t, filepath.Join(apps, "lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"), "\x7fELF", 0o755)
	h.write(t, filepath.Join(apps, "lib/node_modules/@openai/codex/bin/codex.js"), "#!/usr/bin/env node\n", 0o755)
	h.write(t, filepath.Join(apps, "node/versions/20/node"), "\x7fELF", 0o755)
	h.write(t, filepath.Join(apps, "gemini-0.61"), "\x7fELF", 0o755)
	h.write(t, filepath.Join(root, "opencode-1"), "\x7fELF", 0o755)
	link("../@anthropic-ai/claude-code/bin/claude.exe", filepath.Join(apps, "lib/node_modules/.bin/claude"))
	link(filepath.Join(apps, "lib/node_modules/.bin/claude"), filepath.Join(h.bin, "claude"))
	link(filepath.Join(apps, "lib/node_modules/@openai/codex/bin/codex.js"), filepath.Join(h.bin, "codex"))
	link(filepath.Join(apps, "node/versions/20/node"), filepath.Join(h.bin, "node"))
	link(filepath.Join(apps, "gemini-0.61"), filepath.Join(h.bin, "gemini"))
	link(filepath.Join(root, "opencode-1"), filepath.Join(h.bin, "opencode"))
	want := []agents.Shown{
		{Source: filepath.Join(apps, "gemini-0.61"), Target: filepath.Join(apps, "gemini-0.61")},
		{Source: filepath.Join(apps, "gemini-0.61"), Target: agents.InsideBin + "/gemini"},
		{Source: filepath.Join(apps, "lib/node_modules"), Target: filepath.Join(apps, "lib/node_modules")},
		{Source: filepath.Join(apps, "node/versions/20/node"), Target: filepath.Join(apps, "node/versions/20/node")},
		{Source: filepath.Join(apps, "node/versions/20/node"), Target: agents.InsideBin + "/node"},
	}
	got := h.Shown()
	slices.SortFunc(want, func(a, b agents.Shown) int { return strings.Compare(a.Target, b.Target) })
	if !slices.Equal(got, want) {
		t.Errorf("shown %v,\nwant  %v", got, want)
	}
	in, _ := h.boxed(t, true)
	l := h.launch()
	l.Inside = in
	p, err := h.Plan(agents.ClaudeCode, l)
	if err != nil || p.Argv[0] != filepath.Join(apps, "lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe") {
		t.Errorf("%q, %v", p.Argv, err)
	}
	if !strings.Contains(p.Env["PATH"], ":"+filepath.Join(apps, "lib/node_modules/.bin")+":") {
		t.Errorf("PATH=%q", p.Env["PATH"])
	}
	if _, err := h.Plan(agents.OpenCode, l); fault.CodeOf(err) != "agent_not_visible" {
		t.Errorf("a program in the server's own folder: %v", err)
	}
	if p, err := h.Plan(agents.Shell, l); err != nil || !strings.HasPrefix(p.Argv[0], "/") {
		t.Errorf("shell: %q, %v", p.Argv, err)
	}
}

func TestAccountsAreForgottenInBoxes(t *testing.T) {
	t.Parallel()
	sandboxes := t.TempDir()
	h := newHarnessWith(t, func(c *agents.Config) { c.SandboxesDir = sandboxes }, nil, "claude")
	victim := t.TempDir()
	h.write(t, filepath.Join(victim, "acc_1", "x"), "x", 0o600)
	for _, ws := range []string{"wsp_1", "wsp_2"} {
		h.write(t, filepath.Join(sandboxes, ws, "home/.accounts/acc_1/.claude/.credentials.json"), "secret", 0o600)
		h.write(t, filepath.Join(sandboxes, ws, "home/.accounts/acc_2/.claude/.credentials.json"), "secret", 0o600)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(sandboxes, "wsp_3/home"), 0o700), os.Symlink(victim, filepath.Join(sandboxes, "wsp_3/home/.accounts"))); err != nil {
		t.Fatal(err)
	}
	err := h.Forget(agents.ClaudeCode, "usr_1", agents.Account{ID: "acc_1"})
	for ws, want := range map[string]bool{"wsp_1/home/.accounts/acc_1": false, "wsp_2/home/.accounts/acc_1": false, "wsp_1/home/.accounts/acc_2": true} {
		if _, err := os.Stat(filepath.Join(sandboxes, ws)); want != (err == nil) {
			t.Errorf("%s: %v", ws, err)
		}
	}
	if _, err := os.Stat(filepath.Join(victim, "acc_1", "x")); err != nil {
		t.Errorf("removed behind a link: %v", err)
	}
	if err == nil {
		t.Error("a home that leads elsewhere was taken for done")
	}
}

// A home that is a person's own keeps the login that is in it: the server's own never gets there.
func TestAPersonsOwnHomeKeepsItsLogin(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude", "codex")
	in, dir := h.boxed(t, true)
	in.Own = true
	h.write(t, filepath.Join(h.source, ".claude", ".credentials.json"), `{"login":"the server's"}`, 0o600)
	h.write(t, filepath.Join(h.source, ".claude.json"), `{"oauthAccount":{"emailAddress":"server@example.org"}}`, 0o600)
	h.write(t, filepath.Join(h.source, ".codex", "auth.json"), `{"login":"the server's"}`, 0o600)
	theirs := filepath.Join(dir, ".claude", ".credentials.json")
	h.write(t, theirs, `{"login":"theirs"}`, 0o600)
	for _, agent := range []string{agents.ClaudeCode, agents.Codex} {
		l := h.launch()
		l.Account, l.Inside = agents.Account{Kind: agents.ExistingLogin}, in
		if _, err := h.Plan(agent, l); err != nil {
			t.Fatalf("%s: %v", agent, err)
		}
	}
	if b, err := os.ReadFile(theirs); err != nil || string(b) != `{"login":"theirs"}` {
		t.Errorf("their login became %q, %v", b, err)
	}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if b, err := os.ReadFile(path); err == nil && (strings.Contains(string(b), "the server's") || strings.Contains(string(b), "server@example.org")) {
			t.Errorf("%s has the server's login: %s", path, b)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// What is known of an agent's program before a place is asked: of this machine's all, of others what they said.
func TestWhatAPlaceLacks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "codex")
	for _, c := range []struct {
		agent    string
		in       *agents.Inside
		programs map[string]bool
		program  string
		lacks    string // a part of why
		known    bool
	}{
		{"codex", nil, nil, "", "", true},
		{"claude-code", nil, nil, "", "was not found on the server", true},
		{"claude-code", &agents.Inside{Host: true}, nil, "", "was not found on the server", true},
		{"claude-code", &agents.Inside{}, nil, "claude", "", false},
		{"claude-code", &agents.Inside{Machine: true}, map[string]bool{"claude": false}, "claude", "is not on this machine", true},
		{"claude-code", &agents.Inside{Machine: true}, map[string]bool{"claude": true}, "claude", "", true},
	} {
		program, why, known := h.Lacks(c.agent, c.in, c.programs)
		if program != c.program || known != c.known || (why == "") != (c.lacks == "") || !strings.Contains(why, c.lacks) {
			t.Errorf("%s in %+v: %q %q %v", c.agent, c.in, program, why, known)
		}
	}
}
