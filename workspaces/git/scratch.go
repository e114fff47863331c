package git

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// ScratchOf makes a scratch repository on a project's repository.
func (s *Repo) ScratchOf(ctx context.Context, p workspaces.Project) (*hostgit.Scratch, error) {
	return s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
}

// RawChange is one record of diff-tree --raw -z.
type RawChange struct {
	OldMode, NewMode, OldOID, NewOID, Status, Path, from string
}

// ParseRaw parses git's --raw -z output.
func ParseRaw(out string) []RawChange {
	var list []RawChange
	f := strings.Split(out, "\x00")
	for len(f) >= 2 {
		m := strings.Fields(strings.TrimPrefix(f[0], ":"))
		if len(m) != 5 || !strings.HasPrefix(f[0], ":") {
			break
		}
		r := RawChange{OldMode: m[0], NewMode: m[1], OldOID: m[2], NewOID: m[3], Status: m[4], Path: f[1]}
		f = f[2:]
		if r.Status[0] == 'R' || r.Status[0] == 'C' {
			if len(f) == 0 {
				break
			}
			r.from, r.Path, f = r.Path, f[0], f[1:]
		}
		list = append(list, r)
	}
	return list
}

// SplitZero splits git's NUL-separated output.
func SplitZero(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == 0 })
}
