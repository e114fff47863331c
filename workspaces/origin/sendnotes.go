package origin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/merge"
)

const (
	// sentNotes are the notes of the remote as last seen or sent.
	sentNotes = "refs/parawork/notes/origin"
	// maxNotesSent is how many notes one push sends; the rest goes with the next.
	maxNotesSent = 500
	// maxNote bounds a note merged from two, in bytes.
	maxNote = 4 << 20
	// notesTries is how often notes are merged again because somebody else pushed notes in between.
	notesTries = 3
)

// sendNotes sends the notes about pushed commits along with a push, merged with those on the remote: of a note changed on both sides, both
// versions stay. It returns how many notes of the remote are new or changed.
func (s *Service) sendNotes(ctx context.Context, actor accounts.Actor, p workspaces.Project, to string, cred *hostgit.Credential, commit string) (int, error) {
	local, err := s.repo.CommitOf(ctx, p.GitDir, notesRef)
	if err != nil || local == "" {
		return 0, err
	}
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = scratch.Close() }()
	n := notesSender{scratch: scratch, env: merge.IdentityEnv(actor.User, "AUTHOR", "COMMITTER")}
	seen, err := s.repo.CommitOf(ctx, p.GitDir, sentNotes)
	if err != nil {
		return 0, err
	}
	if n.mine, err = n.list(ctx, local); err != nil {
		return 0, err
	}
	if n.seen, err = n.list(ctx, seen); err != nil {
		return 0, err
	}
	if err := n.only(ctx, commit); err != nil || len(n.mine) == 0 {
		return 0, err
	}
	network := hostgit.Call{Network: true, Timeout: s.cfg.PushTimeout, Credential: cred, Progress: s.repo.ProgressOf(ctx)}
	for try := 1; ; try++ {
		there, err := n.fetch(ctx, network, to)
		if err != nil {
			return 0, err
		}
		changed, now, err := n.merge(ctx, there)
		if err != nil {
			return 0, err
		}
		if changed > 0 {
			call := network
			call.Args = []string{"push", "--porcelain", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", "--no-signed", "--", to, now + ":" + notesRef}
			out, err := scratch.Run(ctx, call)
			switch flag, why := pushed(string(out)); {
			case flag == '!' && try < notesTries && (strings.Contains(why, "fetch first") || strings.Contains(why, "non-fast-forward") || strings.Contains(why, "stale")):
				continue
			case flag == '!':
				return 0, fault.New(fault.Conflict, "push_rejected", "The remote rejected %s: %s", notesRef, hostgit.Clean(why))
			case err != nil:
				return 0, err
			}
		}
		return changed, s.adoptNotes(context.WithoutCancel(ctx), p, n, now)
	}
}

// adoptNotes merges the remote's notes into the repository's own, where notes on unpushed commits stay.
func (s *Service) adoptNotes(ctx context.Context, p workspaces.Project, n notesSender, now string) error {
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	local, err := s.repo.CommitOf(ctx, p.GitDir, notesRef)
	if err != nil {
		return err
	}
	edits := []git.RefEdit{git.RefSet(sentNotes, now)}
	if local != "" && local != now {
		if err := n.ref(ctx, "refs/notes/mine", local); err != nil {
			return err
		}
		if _, err := n.run(ctx, nil, "notes", "--ref=refs/notes/mine", "merge", "-q", "-s", "theirs", "refs/notes/new"); err != nil {
			return err
		}
		merged, err := n.scratch.Text(ctx, "rev-parse", "--verify", "refs/notes/mine")
		if err != nil {
			return err
		}
		edits = append(edits, git.RefSet(notesRef, merged))
	}
	return s.repo.UpdateRefs(ctx, p.GitDir, "notes", edits...)
}

// notesSender merges notes in a scratch repository. Notes are keyed by the object they are on; values are the ids of their texts.
type notesSender struct {
	scratch    *hostgit.Scratch
	env        []string
	mine, seen map[string]string
}

func (n *notesSender) run(ctx context.Context, stdin *strings.Reader, args ...string) (string, error) {
	c := hostgit.Call{Env: n.env, Args: args, Max: 64 << 20}
	if stdin != nil {
		c.Stdin = stdin
	}
	out, err := n.scratch.Run(ctx, c)
	return strings.TrimSpace(string(out)), err
}

func (n *notesSender) ref(ctx context.Context, ref, commit string) error {
	args := []string{"update-ref", ref, commit}
	if commit == "" {
		args = []string{"update-ref", "-d", ref}
	}
	_, err := n.run(ctx, nil, args...)
	return err
}

func (n *notesSender) list(ctx context.Context, commit string) (map[string]string, error) {
	list := make(map[string]string)
	if commit == "" {
		return list, nil
	}
	if err := n.ref(ctx, "refs/notes/listed", commit); err != nil {
		return nil, err
	}
	out, err := n.run(ctx, nil, "notes", "--ref=refs/notes/listed", "list")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 2 && git.IsCommitID(f[0]) && git.IsCommitID(f[1]) {
			list[f[1]] = f[0]
		}
	}
	return list, nil
}

// only returns the unsent notes on the pushed commit and its ancestors: others stay local, with their commits.
func (n *notesSender) only(ctx context.Context, commit string) error {
	for on, text := range n.mine {
		if n.seen[on] == text {
			delete(n.mine, on)
		}
	}
	if len(n.mine) == 0 {
		return nil
	}
	var ask strings.Builder
	for on := range n.mine {
		ask.WriteString(on + "\n")
	}
	out, err := n.run(ctx, strings.NewReader(ask.String()+"^"+commit+"\n"), "rev-list", "--ignore-missing", "--stdin")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		delete(n.mine, strings.TrimSpace(line))
	}
	for on := range n.mine {
		if _, err := n.scratch.Text(ctx, "cat-file", "-e", on); err != nil || len(n.mine) > maxNotesSent {
			delete(n.mine, on) // its commit no longer exists; or it goes with the next push
		}
	}
	return nil
}

// fetch fetches the remote's notes; "" = it has none.
func (n *notesSender) fetch(ctx context.Context, c hostgit.Call, to string) (string, error) {
	c.Args = []string{"fetch", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--no-tags", "--", to, "+" + notesRef + ":refs/notes/there"}
	if _, err := n.scratch.Run(ctx, c); err != nil {
		if e, ok := errors.AsType[*hostgit.Error](err); ok && strings.Contains(e.Stderr, "find remote ref") {
			return "", nil
		}
		return "", err
	}
	return n.scratch.Text(ctx, "rev-parse", "--verify", "refs/notes/there")
}

// merge merges the remote's notes with ours. now is the remote's notes commit.
func (n *notesSender) merge(ctx context.Context, there string) (changed int, now string, err error) {
	theirs, err := n.list(ctx, there)
	if err != nil {
		return 0, "", err
	}
	if err := n.ref(ctx, "refs/notes/new", there); err != nil {
		return 0, "", err
	}
	for on, mine := range n.mine {
		text, was := theirs[on], n.seen[on]
		if text == mine {
			continue
		}
		if text != "" && text != was { // it was changed there too: keep both
			if mine, err = n.both(ctx, text, mine); err != nil {
				return 0, "", err
			}
			if mine == text {
				continue
			}
		}
		if _, err := n.run(ctx, nil, "notes", "--ref=refs/notes/new", "add", "--force", "--reuse-message="+mine, on); err != nil {
			return 0, "", err
		}
		changed++
	}
	now, err = n.scratch.Text(ctx, "rev-parse", "--verify", "refs/notes/new")
	return changed, now, err
}

// both is a text that combines two.
func (n *notesSender) both(ctx context.Context, theirs, mine string) (string, error) {
	var text [2]string
	for i, oid := range []string{theirs, mine} {
		raw, err := n.scratch.Run(ctx, hostgit.Call{Args: []string{"cat-file", "blob", oid}, Max: maxNote})
		if err != nil {
			return "", fmt.Errorf("reading a note: %w", err)
		}
		text[i] = strings.TrimRight(string(raw), "\n")
	}
	if strings.Contains(text[0], text[1]) {
		return theirs, nil
	}
	if strings.Contains(text[1], text[0]) {
		return mine, nil
	}
	return n.run(ctx, strings.NewReader(text[0]+"\n\n"+text[1]+"\n"), "hash-object", "-w", "--stdin")
}
