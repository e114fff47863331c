package agents_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/agents"
)

// What Gemini CLI 0.61.0 shows when it asks whether it may write.
const geminiAsks = `
 > please write
╭──────────────────────────────────────────────────────────────────────────╮
│ ? WriteFile  Writing to notes.txt                                        │
│ ╭──────────────────────────────────────────────────────────────────────╮ │
│ │ 1 hello                                                              │ │
│ ╰──────────────────────────────────────────────────────────────────────╯ │
│ Apply this change?                                                       │
│                                                                          │
│ ● 1. Allow once                                                          │
│   2. Allow for this session                                              │
│   3. Modify with external editor                                         │
│   4. No, suggest changes (esc)                                           │
╰──────────────────────────────────────────────────────────────────────────╯
`

func TestGeminiDialog(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	d := h.Dialog(agents.Gemini, strings.Split(geminiAsks, "\n"))
	if d == nil || d.Kind != agents.Permission || d.Title != "Apply this change?" || !strings.Contains(d.Detail, "Writing to notes.txt") || !strings.Contains(d.Detail, "1 hello") ||
		strings.ContainsAny(d.Detail, "│╭╰") || len(d.Options) != 4 {
		t.Fatalf("%+v", d)
	}
	for i, role := range []agents.Role{agents.Allow, agents.AllowSession, agents.Plain, agents.Deny} {
		if o := d.Options[i]; o.Role != role || d.Press(o.ID) != string(rune('1'+i)) {
			t.Errorf("%+v pressed by %q", o, d.Press(o.ID))
		}
	}
	if d := h.Dialog(agents.Gemini, strings.Split(strings.Replace(geminiAsks, "●", " ", 1), "\n")); d != nil {
		t.Errorf("a list without a cursor is a dialog: %+v", d)
	}
	if d := h.Dialog(agents.Gemini, []string{" > hello", "✦ Steps:", "  1. one", "  2. two", "▄▄▄▄▄▄▄▄▄▄▄▄", " > "}); d != nil {
		t.Errorf("an answer is a dialog: %+v", d)
	}
}

func TestDialogOfARule(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{"mine": {Enabled: true, Command: "mine", Screen: []agents.ScreenRule{
		{Pattern: `^busy`, Says: "working"},
		{Pattern: `Write (\S+)\? `, Says: "waiting", Reason: "asks to write $1", Options: []agents.ScreenOption{{Label: "Yes", Keys: "y\r", Role: agents.Allow}, {Label: "No", Keys: "n\r", Role: agents.Deny}}},
		{Pattern: `Which one\?`, Says: "waiting", Options: []agents.ScreenOption{{Label: "First", Keys: "1"}, {Label: "Second", Keys: "2"}}},
		{Pattern: `Password:`, Says: "waiting"},
	}}})
	d := h.Dialog("mine", []string{"some text", "Write a.txt? [y/n]", ""})
	if d == nil || d.Kind != agents.Permission || d.Title != "asks to write a.txt" || d.Press("1") != "y\r" || d.Press("2") != "n\r" || d.Press("3") != "" {
		t.Fatalf("%+v", d)
	}
	if other := h.Dialog("mine", []string{"Write b.txt? [y/n]"}); other == nil || other.Key == d.Key {
		t.Errorf("another question has the same key: %+v", other)
	}
	if d := h.Dialog("mine", []string{"Which one?"}); d == nil || d.Kind != agents.Choice || d.Title != "Which one?" || d.Options[1].Role != agents.Plain {
		t.Errorf("%+v", d)
	}
	for _, line := range []string{"busy", "Password:", "nothing", ""} {
		if d := h.Dialog("mine", []string{line}); d != nil {
			t.Errorf("%q is a dialog: %+v", line, d)
		}
	}
}
