package workspaces

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Check is one command of a project that verifies work: it passes when it exits with 0. It runs in the workspace's sandbox.
type Check struct {
	ID             string `json:"id"` // unique in the project; unchanged when the rest is edited
	Name           string `json:"name"`
	Command        string `json:"command"`         // lines for /bin/sh
	TimeoutSeconds int64  `json:"timeout_seconds"` // 0 = DefaultCheckSeconds
	Required       bool   `json:"required"`        // must pass before the queue merges, and before a manual merge where the project requires that
	AfterTurn      bool   `json:"after_turn"`      // runs automatically when an agent's turn ends

	// Paths are patterns of the files that the check is about, such as server/**/*.go; none = all. They choose what the tool verify runs:
	// whatever must pass before a merge runs whatever changed.
	Paths []string `json:"paths,omitempty"`
}

// Touches reports whether the check is about one of these files. A star stands for any letters but a slash, ** for any at all, and a pattern
// that is a folder's path for what is in it.
func (c Check) Touches(files []string) bool {
	if len(c.Paths) == 0 {
		return true
	}
	for _, p := range c.Paths {
		re, err := pathPattern(p)
		if err != nil || slices.ContainsFunc(files, re.MatchString) {
			return true
		}
	}
	return false
}

var starred = strings.NewReplacer(`\*\*/`, `(?:.*/)?`, `\*\*`, `.*`, `\*`, `[^/]*`, `\?`, `[^/]`)

func pathPattern(p string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?s)\A` + starred.Replace(regexp.QuoteMeta(strings.Trim(p, "/"))) + `(?:/.*)?\z`)
}

// Bounds of a project's checks.
const (
	MaxChecks           = 30
	DefaultCheckSeconds = 600
	MaxCheckSeconds     = 6 * 3600
	maxCheckCommand     = 64 << 10
	maxCheckName        = 100
	maxCheckPaths       = 20
	maxCheckPath        = 200
)

// Merging is how a project merges its workspaces.
type Merging struct {
	Strategy        string `json:"strategy,omitempty"`         // default choice: merge, squash, rebase; "" = merge
	Queue           bool   `json:"queue,omitempty"`            // all merges go through the merge queue
	RequireChecks   bool   `json:"require_checks,omitempty"`   // the required checks must have passed on exactly what is merged
	RequireApproval bool   `json:"require_approval,omitempty"` // exactly what is merged must be approved
}

// CheckChecks validates a project's checks and gives new ones their ids.
func CheckChecks(list []Check) ([]Check, error) {
	bad := func(format string, args ...any) ([]Check, error) {
		return nil, fault.New(fault.Invalid, "check_invalid", format, args...).With("field", "checks")
	}
	if len(list) > MaxChecks {
		return bad("A project has at most %d checks.", MaxChecks)
	}
	list = slices.Clone(list)
	ids, names := map[string]bool{}, map[string]bool{}
	for i := range list {
		c := &list[i]
		c.Name = strings.TrimSpace(c.Name)
		switch {
		case c.Name == "" || utf8.RuneCountInString(c.Name) > maxCheckName || !plainText(c.Name, false):
			return bad("A check's name is one line of 1 to %d characters.", maxCheckName)
		case names[strings.ToLower(c.Name)]:
			return bad("Two checks have the name %q.", c.Name)
		case strings.TrimSpace(c.Command) == "":
			return bad("The check %q has no command.", c.Name)
		case len(c.Command) > maxCheckCommand || !plainText(c.Command, true):
			return bad("The command of the check %q must be text of at most 64 KiB.", c.Name)
		case c.TimeoutSeconds < 0 || c.TimeoutSeconds > MaxCheckSeconds:
			return bad("The check %q may take from 1 second to %d hours.", c.Name, MaxCheckSeconds/3600)
		case len(c.Paths) > maxCheckPaths || slices.ContainsFunc(c.Paths, func(p string) bool { return p == "" || len(p) > maxCheckPath || !plainText(p, false) }):
			return bad("The check %q may have %d patterns of paths, each of 1 to %d bytes.", c.Name, maxCheckPaths, maxCheckPath)
		case len(c.ID) > 64 || !plainWord(c.ID) || c.ID != "" && ids[c.ID]:
			return bad("The check %q has an id that this server did not assign. Leave it out for a new check.", c.Name)
		}
		c.TimeoutSeconds = cmp.Or(c.TimeoutSeconds, DefaultCheckSeconds)
		if c.ID == "" {
			c.ID = id.New("chk")
		}
		ids[c.ID], names[strings.ToLower(c.Name)] = true, true
	}
	return list, nil
}

// plainText reports whether s is valid text without control characters; lines allows tabs and line ends.
func plainText(s string, lines bool) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r < ' ' && (!lines || r != '\n' && r != '\t' && r != '\r') || r == 0x7f
	}) < 0
}

// plainWord reports whether s consists only of characters used in ids.
func plainWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}

func CheckMerging(m Merging) error {
	if m.Strategy != "" && !slices.Contains([]string{StrategyMerge, StrategySquash, StrategyRebase}, m.Strategy) {
		return fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.").With("field", "merging")
	}
	return nil
}

// HowToMerge returns the strategy a project offers first.
func (m Merging) HowToMerge() string {
	return cmp.Or(m.Strategy, StrategyMerge)
}
