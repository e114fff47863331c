package agents

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

func TestPlainScreens(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"[sudo] password for ana: ":                                             "asks for a password",
		"ana@host's password: ":                                                 "asks for a password",
		"Enter passphrase for key '/home/ana/.ssh/x':":                          "asks for a password",
		"Username for 'https://example.com': ":                                  "asks for a user name",
		"Overwrite it? [y/N] ":                                                  "Overwrite it? [y/N]",
		"Proceed (yes/no)? ":                                                    "Proceed (yes/no)",
		"Press any key to continue . . .":                                       "Press any key to continue . . .",
		"Are you sure you want to continue connecting (yes/no/[fingerprint])? ": "Are you sure you want to continue connecting (yes/no/[fingerprint])",
		"ana@host:~$ ":                                                          "",
		"error: password: wrong: 12":                                            "",
		"password: accepted":                                                    "",
		"Do you want to know more? No":                                          "",
	} {
		h := plainScreen.Match([]string{"$ make", line, "", ""})
		if got := h.Reason; strings.TrimRight(got, "? ") != strings.TrimRight(want, "? ") || (want != "") != (h.Mood == Asking) {
			t.Errorf("%q: %q (%s)", line, got, h.Mood)
		}
	}
	if h := plainScreen.Match([]string{"Proceed? [y/n]", "y", "$ "}); h.Mood != Unsaid {
		t.Errorf("answered long ago: %+v", h)
	}
}

func TestScreenRulesAreChecked(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]ScreenRule{
		"no pattern":       {Says: "waiting"},
		"no expression":    {Pattern: "(", Says: "waiting"},
		"matches nothing":  {Pattern: "x*", Says: "waiting"},
		"an unknown state": {Pattern: "x", Says: "lost"},
		"too long":         {Pattern: strings.Repeat("x", 2000), Says: "waiting"},
		"too many lines":   {Pattern: "x", Says: "waiting", Lines: 1000},
	} {
		if _, err := CompileScreenRules([]ScreenRule{r}); fault.CodeOf(err) != "invalid_screen_rule" {
			t.Errorf("%s: %v", name, err)
		}
	}
	rules, err := CompileScreenRules([]ScreenRule{{Pattern: `Continue with (\w+)\?`, Says: "waiting", Reason: "asks about $1", Lines: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if h := rules.Match([]string{"Continue with lunch?", "> ", ""}); h.Mood != Asking || h.Reason != "asks about lunch" || h.Source != FromScreen {
		t.Errorf("%+v", h)
	}
}

// A hostile screen costs little: the lines are bounded, and the expressions are linear.
func TestHostileScreensAreCheap(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("password (y/n ", 1<<16)
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = line
	}
	began := time.Now()
	for _, rules := range []*ScreenRules{plainScreen, claudeScreen, codexScreen} {
		rules.Match(lines)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("reading a hostile screen took %v", took)
	}
}

func TestConfiguredScreenRules(t *testing.T) {
	t.Parallel()
	rule := []ScreenRule{{Pattern: `Shall I\?$`, Says: "waiting", Reason: "wants to know"}}
	r, err := New(Config{HomesDir: t.TempDir(), WorktreesDir: t.TempDir(), Agents: map[string]Settings{
		"mine": {Enabled: true, Command: "true", Screen: rule}, ClaudeCode: {Enabled: true, Screen: rule}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", ClaudeCode} {
		if h := r.Screen(name).Match([]string{"Shall I?"}); h.Reason != "wants to know" {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if h := r.Screen("mine").Match([]string{"Password: "}); h.Mood != Asking {
		t.Error("the rules for any program do not hold any more")
	}
	if h := r.Screen(Shell).Match([]string{"Shall I?"}); h.Mood != Unsaid {
		t.Error("another agent has them too")
	}
	if _, err := New(Config{HomesDir: t.TempDir(), WorktreesDir: t.TempDir(), Agents: map[string]Settings{"mine": {Command: "true",
		Screen: []ScreenRule{{Pattern: "(", Says: "waiting"}}}}}); fault.CodeOf(err) != "invalid_config" {
		t.Errorf("a wrong rule: %v", err)
	}
}
