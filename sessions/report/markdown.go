package report

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/parawork/parawork/sessions/conversation"
)

// Lines of each list in the text; the rest is only counted.
const (
	textFiles    = 200
	textCommands = 200
)

// Markdown formats the report as text for a pull request or a note on a commit. Text from agents and repositories stays text: it
// can create no heading, link, picture or mention.
func (r Report) Markdown() string {
	var b strings.Builder
	w := r.Workspace
	fmt.Fprintf(&b, "# %s %s\n\n", w.Key(), inline(w.Name))
	fmt.Fprintf(&b, "Branch %s on %s, project %s, in %s. As of %s.\n\n", code(w.Branch), code(w.Base), inline(r.Project), inline(r.Place), when(r.At))
	fmt.Fprintf(&b, "| | |\n|---|---|\n| Files | %s, +%d -%d |\n| Outside the folder | %s |\n| Commits | %d |\n| Sessions | %d |\n| Commands | %d, %d failed |\n",
		plural(r.Totals.Changes, "file", "files"), r.Totals.Additions, r.Totals.Deletions, plural(r.Totals.Outside, "file", "files"), len(r.Commits), len(r.Sessions), r.Totals.Commands, r.Totals.Failed)
	fmt.Fprintf(&b, "| Hosts | %s |\n| Time | %s |\n| Tokens | %s |\n| Cost | %s |\n", r.hosts(),
		(time.Duration(r.Costs.RunMs) * time.Millisecond).Round(time.Second), r.tokens(), r.money())

	section(&b, "Asked for", len(r.Prompts), r.Totals.Prompts, func(i int) string { return when(r.Prompts[i].At) + ": " + code(r.Prompts[i].Text) })
	section(&b, "Tests", len(r.Tests), len(r.Tests), func(i int) string {
		t := r.Tests[i]
		if !t.Check {
			return fmt.Sprintf("%s %s, run by an agent, %s", code(t.Command), t.State, when(t.At))
		}
		line := fmt.Sprintf("**%s** %s: %s, %s", t.State, inline(t.Name), code(t.Command), when(t.At))
		if t.Commit != "" {
			line += " on " + code(t.Commit[:min(len(t.Commit), 12)])
		}
		return line
	})
	section(&b, "Sessions", len(r.Sessions), len(r.Sessions), func(i int) string {
		one := r.Sessions[i]
		line := inline(one.Agent) + ", begun " + when(one.StartedAt)
		if one.StartedBy != "" {
			line += " by " + inline(one.StartedBy)
		}
		if one.Permissions == "all" {
			line += ", without asking for permissions"
		}
		if one.EndedAt == 0 {
			return line + ", still running"
		}
		return line + ", ended " + when(one.EndedAt)
	})
	section(&b, "Files", min(len(r.Changes), textFiles), r.Totals.Changes, func(i int) string {
		c := r.Changes[i]
		return fmt.Sprintf("%s %s, +%d -%d", code(c.Path), c.Status, c.Additions, c.Deletions)
	})
	section(&b, "Files outside the folder", min(len(r.Outside), textFiles), r.Totals.Outside, func(i int) string { return code(r.Outside[i].Path) })
	section(&b, "Commands", min(len(r.Commands), textCommands), r.Totals.Commands, func(i int) string {
		c := r.Commands[i]
		if c.Status == conversation.OK {
			return code(c.Text)
		}
		return code(c.Text) + " " + c.Status
	})
	host := func(all []Host) func(int) string {
		return func(i int) string {
			line := fmt.Sprintf("%s, %s", code(fmt.Sprintf("%s:%d", all[i].Host, all[i].Port)), plural(int(all[i].Times), "time", "times"))
			if all[i].Reason != "" {
				line += ", " + strings.ReplaceAll(all[i].Reason, "_", " ")
			}
			return line
		}
	}
	section(&b, "Hosts reached", len(r.Reached), r.Totals.Reached, host(r.Reached))
	section(&b, "Hosts refused", len(r.Refused), r.Totals.Refused, host(r.Refused))
	section(&b, "Not known", len(r.Unknown), len(r.Unknown), func(i int) string { return r.Unknown[i] })
	return b.String()
}

func section(b *strings.Builder, title string, shown, all int, line func(i int) string) {
	if all == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for i := range shown {
		fmt.Fprintf(b, "- %s\n", line(i))
	}
	if all > shown {
		fmt.Fprintf(b, "- and %d more\n", all-shown)
	}
}

// hosts returns how many were reached; "" where that is unknown and none is known.
func (r Report) hosts() string {
	if !r.HostsKnown && r.Totals.Reached+r.Totals.Refused == 0 {
		return "not known"
	}
	return fmt.Sprintf("%d reached, %d refused", r.Totals.Reached, r.Totals.Refused)
}

// tokens returns how many were sent to and received from models.
func (r Report) tokens() string {
	if r.noCosts {
		return "not shown"
	}
	return fmt.Sprintf("%d in, %d out", r.Costs.Input, r.Costs.Output)
}

// money returns the cost, in dollars.
func (r Report) money() string {
	c := r.Costs
	if r.noCosts {
		return "not shown"
	}
	words := fmt.Sprintf("$%.4f sandbox, $%.4f models", float64(c.CostNano)/1e9, float64(c.TokensCostNano)/1e9)
	if c.TokensUnknown > 0 {
		words += " and " + plural(int(c.TokensUnknown), "request", "requests") + " of unknown cost"
	}
	return words
}

func when(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 UTC") }

// oneLine returns a text as one line without control characters, cut after most letters.
func oneLine(s string, most int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range strings.TrimSpace(s) {
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			r = '\uFFFD'
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		if n++; n > most {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// inline escapes a name, so that Markdown shows it as text.
func inline(s string) string {
	s = oneLine(s, 200)
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_{}[]()<>#+!|~&@:", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// code formats a text as code, fenced by more backticks than it has in a row.
func code(s string) string {
	s = oneLine(s, 300)
	if s == "" {
		return "(nothing)"
	}
	run, longest := 0, 0
	for _, r := range s {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", longest+1)
	return fence + " " + s + " " + fence
}
