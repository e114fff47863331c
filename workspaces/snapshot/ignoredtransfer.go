package snapshot

import (
	"context"

	"github.com/parawork/parawork/workspaces/git"
)

// noteRemoteIgnored has the ref name what the sandbox of a far workspace had just now.
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

// lastIgnored is what the sandbox of a far workspace had when it was asked last; "" = it was not asked.
func (t *Job) lastIgnored(ctx context.Context) (commit string, n int, err error) {
	if commit, err = t.s.repo.CommitOf(ctx, t.p.GitDir, RemoteIgnoredRef(t.w.ID)); err != nil || commit == "" {
		return "", 0, err
	}
	files, err := t.s.repo.CommitFiles(ctx, t.p.ID, commit, "")
	return commit, len(files), err
}

// Words say what became of the files.
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
