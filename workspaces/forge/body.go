package forge

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// Limits of a pull request's texts.
const (
	longestTitle  = 250 // characters; GitLab takes 255, and a draft's mark comes before
	longestBody   = 60_000
	longestPrompt = 600 // of each prompt in a body
	mostPrompts   = 5
	mostCommits   = 20
)

// Proposal is what a pull request would be opened with.
type Proposal struct {
	Title, Body, Base, Branch string
	Commits                   int
}

// Propose makes a title and a body from the workspace: its name, its agents' prompts, its commits, its link.
func (s *Service) Propose(ctx context.Context, actor accounts.Actor, workspaceID string) (Proposal, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return Proposal{}, err
	}
	ahead, err := s.cfg.Origin.Ahead(ctx, w.ID)
	if err != nil {
		return Proposal{}, err
	}
	p := Proposal{Title: cut(clean(w.Name, 1000), longestTitle), Base: ahead.Target, Branch: ahead.Branch, Commits: len(ahead.Subjects)}
	var b strings.Builder
	if s.cfg.Prompts != nil {
		prompts, err := s.cfg.Prompts(ctx, w, actor.User.ID)
		if err != nil {
			return p, err
		}
		for i, text := range prompts {
			if i == mostPrompts {
				fmt.Fprintf(&b, "\n… and %d more.\n", len(prompts)-i)
				break
			}
			if i == 0 {
				b.WriteString("What was asked for:\n")
			}
			b.WriteString("\n" + quoted(text) + "\n")
		}
	}
	if n := len(ahead.Subjects); n > 1 {
		b.WriteString("\nCommits:\n\n")
		for i := n - 1; i >= 0 && i >= n-mostCommits; i-- {
			b.WriteString("- " + escape(clean(ahead.Subjects[i], 200)) + "\n")
		}
		if n > mostCommits {
			fmt.Fprintf(&b, "- … and %d more\n", n-mostCommits)
		}
	}
	if s.cfg.Link != nil {
		if at := s.cfg.Link(ctx, w); at != "" {
			fmt.Fprintf(&b, "\nMade in Parawork as [%s](%s).\n", w.Key(), at)
		}
	}
	p.Body = strings.TrimSpace(b.String())
	return p, nil
}

// newRequest is the request for the forge.
func (s *Service) newRequest(ctx context.Context, actor accounts.Actor, w workspaces.Workspace, a Ask) (NewRequest, error) {
	p, err := s.Propose(ctx, actor, w.ID)
	if err != nil {
		return NewRequest{}, err
	}
	n := NewRequest{Title: strings.TrimSpace(a.Title), Body: a.Body, Head: p.Branch, Base: a.Base, Draft: a.Draft}
	n.Title = cmp.Or(n.Title, p.Title)
	n.Body = cmp.Or(n.Body, p.Body)
	n.Base = cmp.Or(n.Base, p.Base)
	n.Body = withArtifacts(n.Body, a.Artifacts)
	switch {
	case p.Commits == 0:
		return n, fault.New(fault.Conflict, "nothing_to_merge", "%s has no commits that are missing in %s. Commit first.", w.Branch, p.Base)
	case !utf8.ValidString(n.Title) || clean(n.Title, len(n.Title)) != n.Title || utf8.RuneCountInString(n.Title) > longestTitle:
		return n, fault.New(fault.Invalid, "title_invalid", "The title is one line of at most %d characters.", longestTitle).With("field", "title")
	case !utf8.ValidString(n.Body) || len(n.Body) > longestBody || strings.ContainsRune(n.Body, 0):
		return n, fault.New(fault.Invalid, "message_invalid", "The description must be text of at most %d bytes.", longestBody).With("field", "body")
	case n.Base == n.Head || strings.HasPrefix(n.Base, "-") || strings.ContainsAny(n.Base, " ~^:?*[\\\x7f") || clean(n.Base, 500) != n.Base:
		return n, fault.New(fault.Invalid, "base_invalid", "The base is another branch of the repository, such as main.").With("field", "base")
	}
	return n, nil
}

// quoted puts text into a Markdown quote that it can neither end nor mention anybody from.
func quoted(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if short := cut(text, longestPrompt); short != text {
		text = short
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = "> " + escape(strings.TrimRight(clean(l, len(l)), " "))
	}
	return strings.Join(lines, "\n")
}

// escape keeps text from being read as HTML, mentions of people, or references that close issues.
func escape(s string) string {
	return strings.NewReplacer("<", "&lt;", "@", "@\u200b", "#", "#\u200b", "![", "!\u200b[").Replace(s)
}

// cut shortens text to a number of characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return strings.TrimSpace(string(r[:most-1])) + "…"
}
