package agents

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// ScreenRule derives an agent's state from its screen. It is applied after a moment without output.
type ScreenRule struct {
	Pattern string // a regular expression (RE2) over the last lines of the screen, without blank lines
	Says    string // working, waiting, idle or failed
	Reason  string // as text; $1 is the match of the pattern's first group; "" = the default
	Lines   int    // how many of the last lines; 0 = 1

	Options []ScreenOption // possible answers, only for agents of config.json
}

// ScreenOption is one answer to a question on the screen, and the keys to type for it.
type ScreenOption struct {
	Label string
	Keys  string
	Role  Role // "" = Plain
}

// Bounds of screen rules.
const (
	maxRules      = 50
	maxPattern    = 1000
	maxRuleReason = 200
	MaxRuleLines  = 60
	maxLineBytes  = 1000
)

// ScreenRules are checked rules. nil has none.
type ScreenRules struct {
	rules []screenRule
	most  int
}

type screenRule struct {
	re     *regexp.Regexp
	mood   Mood
	reason string
	lines  int

	options []ScreenOption
}

// CompileScreenRules checks rules; an error names the wrong one. The first that matches applies.
func CompileScreenRules(rules []ScreenRule) (*ScreenRules, error) {
	bad := func(i int, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_screen_rule", "Screen rule %d: %s", i+1, fmt.Sprintf(format, args...))
	}
	if len(rules) > maxRules {
		return nil, fault.New(fault.Invalid, "invalid_screen_rule", "There are %d screen rules; at most %d are allowed.", len(rules), maxRules)
	}
	out := &ScreenRules{}
	for i, r := range rules {
		mood := MoodNamed(r.Says)
		switch {
		case r.Pattern == "" || len(r.Pattern) > maxPattern:
			return nil, bad(i, "the pattern must have 1 to %d bytes.", maxPattern)
		case mood != Busy && mood != Asking && mood != Ready && mood != Trouble:
			return nil, bad(i, "says is %q; it must be working, waiting, idle or failed.", r.Says)
		case len(r.Reason) > maxRuleReason:
			return nil, bad(i, "the reason has more than %d bytes.", maxRuleReason)
		case r.Lines < 0 || r.Lines > MaxRuleLines:
			return nil, bad(i, "lines must be a number from 1 to %d.", MaxRuleLines)
		}
		re, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, bad(i, "the pattern is not a regular expression: %v", err)
		}
		if re.MatchString("") {
			return nil, bad(i, "the pattern matches an empty screen.")
		}
		lines := max(r.Lines, 1)
		out.rules = append(out.rules, screenRule{re: re, mood: mood, reason: r.Reason, lines: lines, options: r.Options})
		out.most = max(out.most, lines)
	}
	return out, nil
}

// Lines is how many of a screen's last lines the rules look at, 0 when there are no rules.
func (s *ScreenRules) Lines() int {
	if s == nil {
		return 0
	}
	return s.most
}

// Match interprets the lines of a screen, and returns the zero Hint when no rule matches. The work is bounded: the lines are cut,
// and RE2 is linear.
func (s *ScreenRules) Match(lines []string) Hint {
	if r, text, at := s.first(lines); r != nil {
		return Hint{Source: FromScreen, Mood: r.mood, Reason: r.words(text, at)}
	}
	return Hint{}
}

// words returns the rule's reason as text.
func (r *screenRule) words(text string, at []int) string {
	return strings.Join(strings.Fields(string(r.re.ExpandString(nil, r.reason, text, at))), " ")
}

// first returns the first rule that matches, with the text it looked at and where it matched; nil without one.
func (s *ScreenRules) first(lines []string) (*screenRule, string, []int) {
	if s.Lines() == 0 {
		return nil, "", nil
	}
	kept := make([]string, 0, s.most)
	for i := len(lines) - 1; i >= 0 && len(kept) < s.most; i-- {
		if line := strings.TrimRight(lines[i], " "); line != "" {
			kept = append(kept, strings.ToValidUTF8(line[:min(len(line), maxLineBytes)], ""))
		}
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	for i := range s.rules {
		r := &s.rules[i]
		text := strings.Join(kept[max(0, len(kept)-r.lines):], "\n")
		if at := r.re.FindStringSubmatchIndex(text); at != nil {
			return r, text, at
		}
	}
	return nil, "", nil
}

func mustRules(rules ...ScreenRule) *ScreenRules {
	out, err := CompileScreenRules(rules)
	if err != nil {
		panic(err)
	}
	return out
}

const loginCure = "log in in the terminal, or choose another account and start it again"

// claudeScreen: dialogs end with a line of keys; errors are shown right above the input field.
var claudeScreen = mustRules(
	ScreenRule{Says: "waiting", Lines: 40, Reason: "asks you to log in",
		Pattern: `(?i)select login method|paste code here if prompted|browser didn.t open\?`},
	ScreenRule{Says: "waiting", Lines: 40, Reason: "$1",
		Pattern: `(?s)\n\s*((?:Do you want|Would you like) [^\n]+\?)[^\n]*\n.*\b[123]\. .*\bEsc to cancel[^\n]*$`},
	ScreenRule{Says: "waiting", Lines: 40, Reason: "$1",
		Pattern: `(?s)\n[ │]*((?:Is this|Do you trust) [^\n]+\?)[^\n]*\n.*\b(?:Enter to confirm|Esc to (?:cancel|exit))[^\n]*$`},
	ScreenRule{Says: "waiting", Lines: 40, Reason: "asks a question", // from AskUserQuestion, or a menu somebody opened
		Pattern: `(?s)\n\s*❯ .*\n[^\n]*(?:Enter to (?:select|confirm)|Esc to (?:cancel|exit))[^\n]*$`},
	ScreenRule{Says: "waiting", Lines: 5, Reason: "is not logged in: " + loginCure, Pattern: `Not logged in · `},
	ScreenRule{Says: "waiting", Lines: 12, Reason: "its login is not accepted: " + loginCure,
		Pattern: `(?:^|\n)● Please run /login` + aboveBox},
	ScreenRule{Says: "failed", Lines: 12, Reason: "$1", Pattern: `(?:^|\n)● (API Error\b[^\n]*)` + aboveBox},
	ScreenRule{Says: "failed", Lines: 12, Reason: "$1", Pattern: `(?:^|\n)● ((?:You've (?:hit|reached)|Claude usage)[^\n]* limit[^\n]*)` + aboveBox},
)

// aboveBox matches the rest of a message, how long the turn took, and the input field for the next prompt.
const aboveBox = `[^\n]*(?:\n {2}[^\n]*)*(?:\n✻[^\n]*)?\n─+[^\n]*\n❯`

// codexScreen: Codex reports its state itself; these rules cover what it does not report.
var codexScreen = mustRules(
	ScreenRule{Says: "waiting", Lines: 40, Reason: "asks you to log in: " + loginCure, Pattern: `(?i)sign in with chatgpt`},
	ScreenRule{Says: "waiting", Lines: 40, Reason: "$1",
		Pattern: `(?s)\n\s*((?:Would you like|Do you (?:want|trust)|Allow) [^\n]+\?)[^\n]*\n.*(?i:enter to (?:confirm|continue)|esc to cancel)[^\n]*$`},
	ScreenRule{Says: "waiting", Lines: 14, Reason: "its login is not accepted: " + loginCure,
		Pattern: `(?:^|\n)■ [^\n]*\b401 Unauthorized\b` + aboveCodexBox},
	ScreenRule{Says: "idle", Lines: 14, Reason: "was interrupted", Pattern: `(?:^|\n)■ Conversation interrupted` + aboveCodexBox},
	ScreenRule{Says: "failed", Lines: 14, Reason: "$1", Pattern: `(?:^|\n)■ ([^\n]+)` + aboveCodexBox},
)

// aboveCodexBox matches the rest of a message and the input field for the next prompt.
const aboveCodexBox = `[^\n]*(?:\n[^\n›•■]*)*\n› `

// plainScreen covers questions that terminal programs ask on the last line.
var plainScreen = mustRules(
	ScreenRule{Says: "waiting", Reason: "asks for a password", Pattern: `(?i)(?:password|passphrase|passcode|pin)\b[^\n]{0,120}: ?$`},
	ScreenRule{Says: "waiting", Reason: "asks for a user name", Pattern: `(?i)^(?:username|user name|login)\b[^\n]{0,120}: ?$`},
	ScreenRule{Says: "waiting", Reason: "$1", Pattern: `(?i)^\s*([^\n]{0,150}[\[(](?:y/n|yes/no|y/n/[a-z?/]+|yes/no/[^\])]{1,20})[\])])\s*[:?]?\s*$`},
	ScreenRule{Says: "waiting", Reason: "$1", Pattern: `(?i)^\W*((?:press|hit) (?:any key|enter|return|\[?enter\]?)[^\n]{0,60})$`},
	ScreenRule{Says: "waiting", Reason: "$1", Pattern: `(?i)^\s*([^\n]{0,120}(?:are you sure|do you want to (?:continue|proceed))[^\n]{0,60}\?)[^\n]{0,20}$`},
)

// A screened adapter has its own rules for its agent's screen.
type screened interface {
	screen() *ScreenRules
}

func (claudeCode) screen() *ScreenRules { return claudeScreen }
func (codex) screen() *ScreenRules      { return codexScreen }

// Screen returns the rules for an agent's screen: those of config.json, then its adapter's or those for any program.
func (r *Registry) Screen(name string) *ScreenRules {
	if own := r.screens[name]; own != nil {
		return own
	}
	return r.builtinScreen(name)
}

func (r *Registry) builtinScreen(name string) *ScreenRules {
	if a, ok := r.adapters[name].(screened); ok {
		return a.screen()
	}
	return plainScreen
}

// setScreen puts the rules of config.json before the built-in ones of the agent.
func (r *Registry) setScreen(name string, rules []ScreenRule) error {
	if len(rules) == 0 {
		return nil
	}
	own, err := CompileScreenRules(rules)
	if err != nil {
		return fault.New(fault.Invalid, "invalid_config", "agents.%s.screenRules: %v", name, err)
	}
	rest := r.builtinScreen(name)
	r.screens[name] = &ScreenRules{rules: slices.Concat(own.rules, rest.rules), most: max(own.most, rest.most)}
	return nil
}
