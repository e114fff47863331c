package snapshot

import (
	"context"

	"github.com/parawork/parawork/workspaces/git"
)

// noteRemoteIgnored points the ref to the ignored files that a remote workspace's sandbox has just reported.
func (t *Job) noteRemoteIgnored(ctx context.Context, commit string) error {
	if t.f.Ignored == nil || t.f.Ignored.Failed != "" || !t.s.sandboxes.Remote(t.w.ID) {
		return nil
	}
	edit := git.RefDrop(RemoteIgnoredRef(t.w.ID))
	if commit != "" {
		edit = git.RefSet(RemoteIgnoredRef(t.w.ID), commit)
	}
	return t.s.DropRefs(ctx, t.p, []git.RefEdit{edit})
}

// lastIgnored are those a remote workspace's sandbox had when last asked; "" = it was not asked.
func (t *Job) lastIgnored(ctx context.Context) (commit string, n int, err error) {
	if commit, err = t.s.repo.CommitOf(ctx, t.p.GitDir, RemoteIgnoredRef(t.w.ID)); err != nil || commit == "" {
		return "", 0, err
	}
	files, err := t.s.repo.CommitFiles(ctx, t.p.ID, commit, "")
	return commit, len(files), err
}

// Words describe what happened to the files.
func (t *RemoteIgnored) Words() string {
	if t == nil || len(t.files)+len(t.missing) == 0 {
		return ""
	}
	out := git.Plural(len(t.files), "ignored file comes", "ignored files come") + " along."
	if len(t.missing) > 0 {
		out += " Left behind: " + MissingWords(t.missing) + "."
	}
	return out
}
