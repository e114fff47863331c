package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// Credentials stores the credentials with which the server authenticates to the hosts of remotes.
type Credentials interface {
	// Credential returns the one for a project's remote on exactly this host; false when there is none.
	Credential(ctx context.Context, teamID, projectID, host string) (secrets.Credential, bool, error)
	// CredentialFor returns the one for actions of a user on this host: their own, else that of Credential.
	CredentialFor(ctx context.Context, userID, teamID, projectID, host string) (secrets.Credential, bool, error)
	// KeepCredential stores one that came with a project's URL, unless the project has one for the host.
	KeepCredential(ctx context.Context, teamID, projectID, host, username, token, by string) error
}

// Credential returns the credential for a project's own remote, nil if there is none: only ever over https.
func (s *Repo) Credential(ctx context.Context, p workspaces.Project, remote string) (*hostgit.Credential, error) {
	if s.cfg.Credentials == nil {
		return nil, nil
	}
	u, err := url.Parse(remote)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, nil //nolint:nilerr // what is no https URL needs none
	}
	c, ok, err := s.cfg.Credentials.Credential(ctx, p.TeamID, p.ID, u.Host)
	if err != nil || !ok {
		return nil, err
	}
	return &hostgit.Credential{Host: c.Host, Username: c.Username, Token: c.Token}, nil
}

// Credential is the one in an https URL itself, nil without.
func (r Remote) Credential() *hostgit.Credential {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "https" || r.Token == "" {
		return nil
	}
	return &hostgit.Credential{Host: u.Host, Username: r.Username, Token: r.Token}
}

// KeepCredential stores the credential of a project's URL as a secret of the project.
func (s *Repo) KeepCredential(ctx context.Context, p workspaces.Project, r Remote) error {
	if r.Token == "" {
		return nil
	}
	if s.cfg.Credentials == nil {
		return fault.New(fault.Unsupported, "credentials_unsupported", "This server stores no credentials. Use a URL without one.")
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return err
	}
	return s.cfg.Credentials.KeepCredential(ctx, p.TeamID, p.ID, u.Host, r.Username, r.Token, p.CreatedBy)
}

// legacyCredentials is where git's own store had a project's credential before secrets existed.
const legacyCredentials = ".git-credentials"

// MoveCredentials converts the credential files in projects' folders to secrets. It leaves those it cannot move to the next start.
func (s *Repo) MoveCredentials(ctx context.Context) error {
	if s.cfg.Credentials == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(s.cfg.DataDir, "projects", "*", legacyCredentials))
	if err != nil {
		return err
	}
	for _, file := range files {
		projectID := filepath.Base(filepath.Dir(file))
		if err := s.moveCredential(ctx, projectID, file); err != nil {
			s.cfg.Log.WarnContext(ctx, "a project's credential could not be made a secret; it is not used until it is", "project_id", projectID, "error", err)
		}
	}
	return nil
}

func (s *Repo) moveCredential(ctx context.Context, projectID, file string) error {
	p, err := s.store.Project(ctx, projectID)
	switch {
	case fault.Is(err, fault.NotFound):
		return os.Remove(file)
	case err != nil:
		return err
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := ParseRemote(strings.TrimSpace(string(raw))+"/moved", []string{"https", "http"})
	if err != nil {
		return errors.New("the file has not the format of git's credential store") // its text may contain the credential
	}
	if err := s.KeepCredential(ctx, p, r); err != nil {
		return err
	}
	return os.Remove(file)
}

// FetchIsolated fetches a remote's branches in a scratch repository: git sees no config, hooks or attributes of the repository, which an
// agent may have written, so nothing there can redirect the credential. Then it updates the repository's own refs. c configures the call.
func (s *Repo) FetchIsolated(ctx context.Context, p workspaces.Project, remote string, c hostgit.Call) error {
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return err
	}
	defer func() { _ = scratch.Close() }()
	before, err := s.refsOf(ctx, hostgit.Call{GitDir: p.GitDir, Args: listRefs("refs/remotes/origin", "refs/tags", "refs/heads")})
	if err != nil {
		return err
	}
	var packed strings.Builder
	for ref, id := range before {
		if name, ok := strings.CutPrefix(ref, HeadsPrefix); ok { // known objects, so that the remote does not send them again
			ref = "refs/parawork/have/" + name
		}
		packed.WriteString(id + " " + ref + "\n")
	}
	if err := os.WriteFile(filepath.Join(scratch.Dir(), "packed-refs"), []byte(packed.String()), 0o600); err != nil {
		return err
	}
	c.Network, c.Timeout, c.Progress = true, s.cfg.FetchTimeout, s.ProgressOf(ctx)
	c.Args = []string{"fetch", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--progress", "--prune", "--", remote, FetchSpec}
	if _, err := scratch.Run(ctx, c); err != nil {
		return err
	}
	raw, err := scratch.Run(ctx, hostgit.Call{Args: listRefs("refs/remotes/origin", "refs/tags"), Max: 256 << 20})
	if err != nil {
		return err
	}
	after := parseRefs(string(raw))
	var gone, come []RefEdit
	for ref, id := range after {
		if before[ref] != id && (strings.HasPrefix(ref, OriginPrefix) || before[ref] == "") { // existing tags stay
			come = append(come, RefSet(ref, id))
		}
	}
	for ref := range before {
		if after[ref] == "" && strings.HasPrefix(ref, OriginPrefix) {
			gone = append(gone, RefDrop(ref))
		}
	}
	for _, edits := range [][]RefEdit{gone, come} { // one at a time: a name may have become a prefix of others
		if len(edits) == 0 {
			continue
		}
		if err := s.UpdateRefs(ctx, p.GitDir, "fetch", edits...); err != nil {
			return err
		}
	}
	return nil
}

func listRefs(prefixes ...string) []string {
	return append([]string{"for-each-ref", "--format=%(objectname) %(refname) %(symref)"}, prefixes...)
}

func (s *Repo) refsOf(ctx context.Context, c hostgit.Call) (map[string]string, error) {
	c.Max = 256 << 20
	raw, err := s.git.Run(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("reading refs: %w", err)
	}
	return parseRefs(string(raw)), nil
}

// parseRefs parses the output of listRefs and leaves out symbolic refs such as origin/HEAD.
func parseRefs(raw string) map[string]string {
	refs := map[string]string{}
	for line := range strings.Lines(raw) {
		if f := strings.Fields(line); len(f) == 2 && IsCommitID(f[0]) {
			refs[f[1]] = f[0]
		}
	}
	return refs
}
