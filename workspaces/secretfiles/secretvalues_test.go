package secretfiles_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

const (
	secretValue = "sk-live-Zq83/+vN2x7LwQpT"
	secretFile  = "API_KEY=" + secretValue + "\n"
)

// knownSecrets is what a workspace was given: a variable, and a file with it.
func knownSecrets() workspaces.SecretFiles {
	a, b := snapshot.BlobNames([]byte(secretFile))
	return workspaces.SecretFiles{Paths: map[string]bool{"conf/prod.env": true}, Blobs: map[string]bool{a: true, b: true},
		Values: redact.NewFinder(secretValue), Masker: redact.New(secretValue)}
}

// objectsWith lists the objects of a repository, reachable or not, that hold a text.
func objectsWith(t *testing.T, gitDir, text string) (found []string) {
	t.Helper()
	for _, id := range strings.Fields(wstest.Git(t, gitDir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")) {
		if kind := wstest.Git(t, gitDir, "cat-file", "-t", id); strings.Contains(wstest.Git(t, gitDir, "cat-file", kind, id), text) {
			found = append(found, kind+" "+id)
		}
	}
	return found
}

// However an agent puts a secret into its commits, they are rejected, and are fetched once it is removed.
func TestCommitsWithASecretAreRejected(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	h.S.Records.Connect(b, wstest.SecretSessions{Setups: h.Ses, Files: knownSecrets()}) // its session has ended long ago
	coded := base64.StdEncoding.EncodeToString([]byte("x:" + secretValue + ":y"))
	sq := "'" + strings.TrimSuffix(secretFile, "\n") + "'"
	for name, does := range map[string]string{
		"the file itself":          `mkdir -p conf; echo ` + sq + ` > conf/prod.env; git add -f conf/prod.env; git commit -qm x`,
		"other bytes in its place": `mkdir -p conf; echo nothing > conf/prod.env; git add -f conf; git commit -qm x`,
		"one byte more":            `mkdir -p conf; printf '%s\n\n' ` + sq + ` > conf/prod.env; git add -f conf; git commit -qm x`,
		"a copy":                   `echo ` + sq + ` > copy; git add copy; git commit -qm x`,
		"a copy with a line more":  `printf '%s\n%s\n' 'OTHER=1' ` + sq + ` > copy; git add copy; git commit -qm x`,
		"the value in code":        `echo 'const key = "` + secretValue + `"' >> a.txt; git commit -qam x`,
		"in base64":                `echo ` + coded + ` > c; git add c; git commit -qm x`,
		"in a URL":                 `echo 'https://x/?k=` + url.QueryEscape(secretValue) + `' > c; git add c; git commit -qm x`,
		"removed again":            `echo ` + sq + ` > c; git add c; git commit -qm x; git rm -q c; git commit -qm y`,
		"the message":              `echo 1 > c; git add c; git commit -qm 'use ` + secretValue + `'`,
		"the author":               `echo 1 > c; git add c; git -c user.name='` + secretValue + `' commit -qm x`,
		"the target of a link":     `ln -s '` + secretValue + `' link; git add link; git commit -qm x`,
		"a file's name":            `echo 1 > '` + strings.ReplaceAll(secretValue, "/", "_") + `'; mkdir -p 'sk-live-Zq83'; echo 1 > 'API_` + strings.ReplaceAll(secretValue, "/", "_") + `'; git add .; git commit -qm x`,
		"a stash":                  `echo ` + sq + ` > a.txt; git stash -q`,
		"another branch":           `git checkout -qb side; echo ` + sq + ` > c; git add c; git commit -qm x; git checkout -q -`,
		"a tag":                    `git tag -m 'v ` + secretValue + `' v1`,
		"a blob without a file":    `x=$(echo ` + sq + ` | git hash-object -w --stdin); git tag blob $x; echo 1 > c; git add c; git commit -qm x`,
		"a note":                   `git notes add -m ` + sq + ` HEAD; git branch notes refs/notes/commits; echo 1 > c; git add c; git commit -qm x`,
		"renamed afterwards":       `echo ` + sq + ` > one; git add one; git commit -qm x; git mv one two; git commit -qm y`,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a file's name" { // a name cannot have the value's slash
				v := strings.ReplaceAll(secretValue, "/", "_")
				f := knownSecrets()
				f.Values = redact.NewFinder(v)
				h.S.Records.Connect(b, wstest.SecretSessions{Setups: h.Ses, Files: f})
				defer h.S.Records.Connect(b, wstest.SecretSessions{Setups: h.Ses, Files: knownSecrets()})
			}
			b.Sh(w, does)
			_, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
			wstest.WantCode(t, err, "commits_hold_secret")
			if err != nil && strings.Contains(err.Error(), secretValue) {
				t.Errorf("the error tells it: %v", err)
			}
			if left := objectsWith(t, p.GitDir, secretValue); len(left) > 0 {
				t.Errorf("the project has %v", left)
			}
			b.Sh(w, "git tag -d v1 || true; git tag -d blob || true; git branch -q -D side || true; git branch -q -D notes || true; git update-ref -d refs/notes/commits; git stash clear; git reset -q --hard origin/main; git clean -qfdx; true")
		})
	}
	b.Sh(w, "echo good > good; git add good; git commit -qm good")
	h.Merge(w, "merge")
}

// Without isolation the agent's commits are in the project at once: they are not merged, and the value is not shown.
func TestASecretInACommitIsNotMergedNorShown(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: knownSecrets()})
	before := h.Keep(w.ID, snapshot.Request{})
	wstest.Write(t, w.Path, "key.go", "package main\nconst key = \""+secretValue+"\"\n")
	_, err := h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "x"})
	wstest.WantCode(t, err, "secret_value_staged")
	_, err = h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "x", Paths: []string{"key.go"}})
	wstest.WantCode(t, err, "secret_value_staged")
	_, err = h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "use " + secretValue})
	wstest.WantCode(t, err, "secret_in_message")
	sn := h.Keep(w.ID, snapshot.Request{Reason: "stop"})
	if got := wstest.Git(t, wstest.ProjectOf(h, w).GitDir, "show", sn.Commit+":key.go"); strings.Contains(got, secretValue) || !strings.Contains(got, "const key = \"****") {
		t.Errorf("the snapshot has\n%s", got)
	}
	if len(sn.Missing) != 1 || sn.Missing[0].Path != "key.go" {
		t.Errorf("the snapshot does not say it: %+v", sn.Missing)
	}
	// A restore leaves files that the snapshot could not store.
	res, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, before, snapshot.RestoreRequest{})
	wstest.Must(t, err)
	if !strings.Contains(wstest.Read(t, w.Path, "key.go"), secretValue) || len(res.Conflicts) != 1 {
		t.Errorf("the restore lost the file: %+v", res)
	}
	wstest.Git(t, w.Path, "add", "-f", "key.go")
	wstest.Git(t, w.Path, "commit", "-qm", "by the agent")
	_, err = h.S.Merging.Merge(ctx, h.Actor, w.ID, workspaces.MergeRequest{Strategy: "squash"})
	wstest.WantCode(t, err, "commits_hold_secret")
	tree := func(rev string) git.Tree {
		at, err := h.S.Snapshots.Resolve(ctx, w, rev, "")
		wstest.Must(t, err)
		return at
	}
	r, err := h.S.Snapshots.Patch(ctx, w.ID, tree("base"), tree("head"), nil, 3, false)
	wstest.Must(t, err)
	patch, err := io.ReadAll(r)
	wstest.Must(t, err)
	wstest.Must(t, r.Close())
	if strings.Contains(string(patch), secretValue) || !strings.Contains(string(patch), "+const key = \"****") {
		t.Errorf("the patch is\n%s", patch)
	}
	if got := h.FileOf(w, "head", "key.go"); strings.Contains(got, secretValue) || !strings.Contains(got, "const key") {
		t.Errorf("the file is\n%s", got)
	}
	f, err := h.S.Stage.Hunks(ctx, h.Actor.User.ID, w.ID, "key.go", "base", "head")
	wstest.Must(t, err)
	if len(f.Hunks) != 1 || strings.Contains(strings.Join(f.Hunks[0].Added, ""), secretValue) {
		t.Errorf("the hunks are %+v", f)
	}
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path})
	other := h.Ready(workspaces.NewWorkspace{ProjectID: w.ProjectID})
	_, err = h.S.Stage.Take(ctx, h.Actor, other.ID, stage.TakeRequest{From: w.ID, Revision: "head", Paths: []string{"key.go"}})
	wstest.WantCode(t, err, "secret_value")
}

// A value that the base exposes is a setting, and no reason to reject work.
func TestAValueOfTheBaseIsNoSecret(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	dir := h.Repo("r")
	wstest.Write(t, dir, "main.tf", "region = \"eu-central-1-zone\"\n")
	wstest.Git(t, dir, "add", ".")
	wstest.Git(t, dir, "commit", "-qm", "region")
	p := h.PathProject(dir)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	f := knownSecrets()
	f.Values = redact.NewFinder("eu-central-1-zone", secretValue)
	h.S.Records.Connect(b, wstest.SecretSessions{Setups: h.Ses, Files: f})
	b.Sh(w, `echo 'zone = "eu-central-1-zone"' > more.tf; git add .; git commit -qm more`)
	h.Merge(w, "merge")
	b.Sh(w, `echo 'zone = "eu-central-1-zone" `+secretValue+`' > more.tf; git commit -qam more`)
	_, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "commits_hold_secret")
}

type unknowing struct{ *wstest.Setups }

func (unknowing) SecretFiles(context.Context, string) (workspaces.SecretFiles, error) {
	return workspaces.SecretFiles{}, errors.New("the database is away")
}

// If the secrets are unknown, nothing is shown or stored.
func TestNothingIsShownIfSecretsAreUnknown(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	before := h.Keep(w.ID, snapshot.Request{})
	at, err := h.S.Snapshots.Resolve(ctx, w, before.ID, "")
	wstest.Must(t, err)
	wstest.Write(t, w.Path, "work", "mine\n")
	h.S.Records.Connect(h.Sandboxes, unknowing{h.Ses})
	_, _, err = h.S.Snapshots.FileAt(ctx, w.ID, at, "a.txt")
	wstest.WantCode(t, err, "secrets_unknown")
	_, err = h.S.Snapshots.Patch(ctx, w.ID, at, at, nil, 3, false)
	wstest.WantCode(t, err, "secrets_unknown")
	_, err = h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "x"})
	wstest.WantCode(t, err, "secrets_unknown")
	if _, err = h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "stop"}); fault.CodeOf(err) != "secrets_unknown" {
		t.Errorf("a snapshot was taken: %v", err)
	}
	h.S.Records.Connect(h.Sandboxes, h.Ses)
	if sn := h.Keep(w.ID, snapshot.Request{Reason: "stop"}); h.FileOf(w, sn.ID, "work") != "mine\n" {
		t.Error("the next snapshot has not got it")
	}
}

// given is what each workspace was given, nothing where it is not known.
type given struct {
	*wstest.Setups
	of map[string]workspaces.SecretFiles
}

func (g given) SecretFiles(_ context.Context, workspaceID string) (workspaces.SecretFiles, error) {
	f, ok := g.of[workspaceID]
	if !ok {
		return f, errors.New("the database is away")
	}
	return f, nil
}

// A comparison of two workspaces shows the secrets of neither, whichever of them has any.
func TestSecretsOfTwoWorkspacesTogether(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("r")
	wstest.Write(t, dir, "main.tf", "region = \"eu-central-1-zone\"\n")
	wstest.Git(t, dir, "add", ".")
	wstest.Git(t, dir, "commit", "-qm", "region")
	p := h.PathProject(dir)
	one, two := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID}).ID, h.Ready(workspaces.NewWorkspace{ProjectID: p.ID}).ID
	mine, theirs := knownSecrets(), workspaces.SecretFiles{Paths: map[string]bool{"token": true}, Sums: map[string]bool{"cd": true},
		Values: redact.NewFinder("eu-central-1-zone", "another-long-secret")}
	text := "eu-central-1-zone " + secretValue + " another-long-secret"
	for _, c := range []struct {
		first, then workspaces.SecretFiles
		hidden      []string
	}{
		{mine, theirs, []string{secretValue, "another-long-secret"}},
		{theirs, mine, []string{secretValue, "another-long-secret"}},
		{workspaces.SecretFiles{}, theirs, []string{"another-long-secret"}},
		{theirs, workspaces.SecretFiles{}, []string{"another-long-secret"}},
		{workspaces.SecretFiles{}, workspaces.SecretFiles{}, nil},
	} {
		h.S.Records.Connect(h.Sandboxes, given{h.Ses, map[string]workspaces.SecretFiles{one: c.first, two: c.then}})
		all, err := h.S.SecretFiles.Together(context.Background(), one, "", two, one)
		wstest.Must(t, err)
		want := text
		for _, v := range c.hidden {
			want = strings.ReplaceAll(want, v, strings.Repeat("*", len(v)))
		}
		if got := all.Values.Text(text, all.Hides); got != want {
			t.Errorf("%q, not %q", got, want)
		}
		if n := len(c.first.Paths) + len(c.then.Paths); len(all.Paths) != n || len(all.Blobs) != len(c.first.Blobs)+len(c.then.Blobs) || len(all.Sums) != len(c.first.Sums)+len(c.then.Sums) {
			t.Errorf("files of both: %+v", all)
		}
	}
	if len(mine.Paths) != 1 || len(theirs.Paths) != 1 {
		t.Error("what a workspace was given changed")
	}
	h.S.Records.Connect(h.Sandboxes, given{h.Ses, map[string]workspaces.SecretFiles{one: mine}})
	_, err := h.S.SecretFiles.Together(context.Background(), one, two)
	wstest.WantCode(t, err, "secrets_unknown")
}
