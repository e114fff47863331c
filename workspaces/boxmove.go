package workspaces

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// moveHome moves the refs of the repository after those of the sandbox. What they no longer reach is kept. was is where the workspace's
// branch is here, before where it was there when it was asked last.
func (s *Service) moveHome(ctx context.Context, p Project, w Workspace, v boxView, was, before string, have, want map[string]string) error {
	tip := v.refs[HeadsPrefix+w.Branch]
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	first, then, lost, err := s.branchHome(ctx, p, w, tip, was, before)
	if err != nil {
		return err
	}
	for name, id := range have {
		if want[name] == id {
			continue
		}
		if !strings.Contains(name, "/stash/") || !slices.Contains(v.stash, id) { // a stash that only changed its number is not lost
			lost = append(lost, id)
		}
		if want[name] == "" {
			first = append(first, refDelete(name, id))
		}
	}
	for name, id := range want {
		if have[name] != id {
			then = append(then, RefSet(name, id))
		}
	}
	keep, err := s.keepLost(ctx, p, w, v, lost)
	if err != nil {
		return err
	}
	// Names that go must be gone before others take their place: a, then a/b.
	for _, edits := range [][]RefEdit{append(keep, first...), then} {
		if len(edits) == 0 {
			continue
		}
		if err := s.UpdateRefs(ctx, p.GitDir, "from the sandbox of "+w.Key(), edits...); err != nil {
			return GitFault(err, fault.Conflict, "home_failed", "Moving the workspace's branch")
		}
	}
	return nil
}

// branchHome says how the workspace's own branch follows the sandbox's: the sandbox is where its work is done. Only what somebody
// added to it in the repository meanwhile is left where it is.
func (s *Service) branchHome(ctx context.Context, p Project, w Workspace, tip, was, before string) (first, then []RefEdit, lost []string, err error) {
	ref := HeadsPrefix + w.Branch
	switch {
	case tip == "" || tip == was:
		return nil, nil, nil, nil
	case was == "":
		return nil, []RefEdit{refCreate(ref, tip)}, nil, nil
	}
	forward, err := s.contains(ctx, p.GitDir, tip, was)
	if err != nil {
		return nil, nil, nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branch")
	}
	if !forward {
		behind, err := s.contains(ctx, p.GitDir, was, tip)
		if err != nil {
			return nil, nil, nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branch")
		}
		if behind && before != was && before == tip {
			return nil, nil, nil, nil // somebody else moved it on; the sandbox is told
		}
		lost = []string{was}
	}
	return nil, []RefEdit{refUpdate(ref, tip, was)}, lost, nil
}

// keepLost makes refs that keep what is reached from nowhere any more; the oldest give way.
func (s *Service) keepLost(ctx context.Context, p Project, w Workspace, v boxView, lost []string) ([]RefEdit, error) {
	var edits []RefEdit
	if len(lost) == 0 {
		return nil, nil
	}
	kept, err := s.RefsBelow(ctx, p, keepRefs(w.ID))
	if err != nil {
		return nil, err
	}
	next, oldest := 1, []int{}
	for name := range kept {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, keepRefs(w.ID))); err == nil {
			oldest = append(oldest, n)
			next = max(next, n+1)
		}
	}
	slices.Sort(oldest)
	tips := []string{v.head}
	for _, id := range v.refs {
		tips = append(tips, id)
	}
	slices.Sort(lost)
	for _, id := range slices.Compact(lost) {
		reached, err := s.reachedFrom(ctx, p, id, tips)
		if err != nil {
			return nil, err
		}
		if reached || slices.Contains(sortedValues(kept), id) {
			continue
		}
		edits = append(edits, refCreate(keepRefs(w.ID)+strconv.Itoa(next), id))
		oldest = append(oldest, next)
		next++
	}
	for len(oldest) > maxKept {
		if name := keepRefs(w.ID) + strconv.Itoa(oldest[0]); kept[name] != "" {
			edits = append(edits, refDelete(name, kept[name]))
		}
		oldest = oldest[1:]
	}
	return edits, nil
}

func sortedValues(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// reachedFrom reports whether a commit is reached from one of tips.
func (s *Service) reachedFrom(ctx context.Context, p Project, id string, tips []string) (bool, error) {
	var in strings.Builder
	in.WriteString(id + "\n")
	for _, t := range tips {
		in.WriteString("^" + t + "\n")
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(in.String()), Args: []string{"rev-list", "--max-count=1", "--ignore-missing", "--stdin"}})
	if err != nil {
		return false, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branches")
	}
	return out == "", nil
}

// tellBox shows the sandbox the repository's branches as they are now. told says whether anything was new.
func (s *Service) tellBox(ctx context.Context, p Project, w Workspace, b *Sandbox, v boxView) (told bool, err error) {
	far := s.Remote(w.ID)
	now, err := s.boxTold(ctx, p, w)
	if far {
		now, err = s.farTold(ctx, p, w)
	}
	if err != nil {
		return false, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	was := s.readTold(w.ID)
	var drop, set strings.Builder
	var news []string
	for name := range was {
		if now[name] == "" && v.told[name] != "" {
			drop.WriteString("delete " + name + "\n")
		}
	}
	for _, name := range sortedKeys(now) {
		id := now[name]
		if was[name] == id {
			continue
		}
		if own := v.refs[name]; own != "" || strings.HasPrefix(name, HeadsPrefix) {
			// A branch or tag the sandbox has itself follows only where nobody worked on it.
			if own != was[name] || own == "" || v.branch == strings.TrimPrefix(name, HeadsPrefix) {
				continue
			}
			news = append(news, id)
			set.WriteString("update " + name + " " + id + " " + own + "\n")
			continue
		}
		news = append(news, id)
		set.WriteString("update " + name + " " + id + "\n")
	}
	if len(news) > 0 {
		if err := s.supply(ctx, p, w, b, news); err != nil {
			return false, err
		}
	}
	for _, edits := range [...]string{drop.String(), set.String()} {
		if edits == "" {
			continue
		}
		if _, err := b.Git(ctx, []byte(edits), "update-ref", "--stdin"); err != nil {
			return false, SandboxFault(err, "box_untold", "Telling the sandbox of the repository's branches")
		}
		told = true
	}
	return told, s.noteTold(w.ID, now)
}
