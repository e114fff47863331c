package repository_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools/skills/repository"
	"github.com/parawork/parawork/workspaces"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) { os.Exit(testguest.Run(m, &guestPath)) }

// reader reads a worktree with these files.
func reader(t *testing.T, files map[string]string) (r *repository.Reader, root string) {
	t.Helper()
	one := testguest.Sandbox(t, executors.Local, guestPath, files)
	secrets := workspaces.SecretFiles{Paths: map[string]bool{".claude/skills/leak/SKILL.md": true}, Values: redact.NewFinder("s3cr3t-value-of-a-key")}
	return repository.New(repository.Config{Sandboxes: one, Secrets: func(context.Context, string) (workspaces.SecretFiles, error) { return secrets, nil }}), one.Root
}

func texts(files []repository.File) (out []string) {
	for _, f := range files {
		out = append(out, f.Path+": "+f.Text)
	}
	return out
}

func wants(t *testing.T, got []string, err error, want ...string) {
	t.Helper()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q (%v), not %q", got, err, want)
	}
}

func TestInstructions(t *testing.T) {
	t.Parallel()
	r, root := reader(t, map[string]string{
		"CLAUDE.md":               "read\n@docs/style.md\n@/etc/hostname\n@~/secret\n@../outside\n```\n@docs/style.md\n```\nkey s3cr3t-value-of-a-key\x1b[2J",
		"docs/style.md":           "tabs\n@more.md\n@../CLAUDE.md",
		"docs/more.md":            "short lines",
		"web/AGENTS.md":           "web",
		"web/CLAUDE.md":           "not this one",
		"web/src/deep/AGENTS.md":  "deep",
		"web/src/deep/file.ts":    "",
		"web/src/empty/AGENTS.md": " \n",
	})
	for name, target := range map[string]string{"out": "/etc", "AGENTS.md": "/etc/hostname"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	root1, err := r.Instructions(t.Context(), "w", "")
	wants(t, texts(root1), err, "CLAUDE.md: read\ntabs\nshort lines\n@../CLAUDE.md\n@/etc/hostname\n@~/secret\n@../outside\n```\n@docs/style.md\n```\nkey *********************[2J")
	var asked []string
	claim := func(f string) bool {
		known := slices.Contains(asked, f)
		asked = append(asked, f)
		return !known
	}
	near, err := r.Near(t.Context(), "w", []string{"web/src/deep/file.ts", root + "/web/src/empty", "../web", "/etc/passwd", "out/x", ".git/config"}, claim)
	wants(t, texts(near), err, "web/AGENTS.md: web", "web/src/deep/AGENTS.md: deep")
	near, err = r.Near(t.Context(), "w", []string{"web/other.ts"}, claim)
	wants(t, texts(near), err)
}

func TestSkillsAndCommands(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		".parawork/skills/release/SKILL.md": "---\nname: release\ndescription: How to release\n---\nRun make release.\n",
		".claude/skills/release/SKILL.md":   "another one",
		".claude/skills/colon/SKILL.md":     "---\nname: colon\ndescription: Use when: a colon\n---\nbody",
		".agents/skills/folder/SKILL.md":    "---\nname: named\ndescription: >\n  two\n  lines\n---\n",
		".claude/skills/bomb/SKILL.md":      "---\na: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nname: *b\ndescription: *a\n---\n# Title\n",
		".claude/skills/leak/SKILL.md":      "a secret's file",
		".claude/skills/Bad Name/SKILL.md":  "bad",
		".claude/commands/fix.md":           "---\ndescription: Fix an issue\nargument-hint: \"[number]\"\n---\nFix $ARGUMENTS\n",
		".claude/commands/notes.txt":        "",
		".parawork/commands/release.md":     "a command",
	}
	for i := range 100 {
		files[fmt.Sprintf(".claude/skills/z%03d/SKILL.md", i)] = strings.Repeat("x", 100)
	}
	r, root := reader(t, files)
	if err := os.Symlink("/etc", filepath.Join(root, ".claude/skills/etc")); err != nil {
		t.Fatal(err)
	}
	all, err := r.Skills(t.Context(), "w")
	var got []string
	for _, s := range all {
		if !strings.HasPrefix(s.Name, "z") {
			got = append(got, s.Name+": "+s.Description+s.Text)
		}
	}
	wants(t, got, err, "release: How to release", "named: two lines", "bomb: Title", "colon: Use when: a colon")
	if len(all) > repository.MaxSkills {
		t.Errorf("%d skills", len(all))
	}
	for name, want := range map[string]string{"release": "Run make release.", "named": "", "colon": "body"} {
		if s, err := r.Skill(t.Context(), "w", name); err != nil || s.Text != want || s.Name != name {
			t.Errorf("%+v %v", s, err)
		}
	}
	for _, name := range []string{"leak", "fix", "etc", "../release", "none", ""} {
		if _, err := r.Skill(t.Context(), "w", name); fault.CodeOf(err) != "skill_not_found" {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]string{"fix": "Fix $ARGUMENTS", "release": "a command", "colon": "body"} {
		if s, err := r.Command(t.Context(), "w", name); err != nil || s.Text != want {
			t.Errorf("%+v %v", s, err)
		}
	}
	if s, err := r.Command(t.Context(), "w", "fix"); s.Hint != "[number]" || err != nil {
		t.Errorf("%+v %v", s, err)
	}
}

func FuzzFrontMatter(f *testing.F) {
	f.Add("---\nname: a\n---\nbody")
	f.Add("---\n{{{[[[&a *a\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		front, body := repository.Split(text)
		if len(body) > len(text) || strings.ContainsRune(front.Description, '\n') {
			t.Errorf("%+v", front)
		}
	})
}
