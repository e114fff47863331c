package secrets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// reach returns what a session or a command could be given, what counts more behind what counts less.
func (s *Service) reach(ctx context.Context, a Ask) ([]Secret, error) {
	var all []Secret
	for _, o := range []Owner{{TeamID: a.TeamID}, {TeamID: a.TeamID, ProjectID: a.ProjectID}, {UserID: a.UserID}} {
		if o.TeamID != "" && a.TeamID == "" || o == (Owner{TeamID: a.TeamID}) && len(all) > 0 || o == (Owner{}) {
			continue
		}
		some, err := s.cfg.Store.SessionSecrets(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// For returns what a session or a command is given, and every value that it must not show. Errors: secret_unreadable.
func (s *Service) For(ctx context.Context, a Ask) (Given, error) {
	all, err := s.reach(ctx, a)
	if err != nil {
		return Given{}, fmt.Errorf("reading secrets: %w", err)
	}
	g := Given{Env: map[string]string{}}
	files := map[string]int{} // index in g.Files, by target
	var used []string
	own := sync.OnceValues(func() (bool, error) { return s.givesOwn(ctx, a) })
	for _, k := range all {
		gets := k.InSandbox && (len(k.Agents) == 0 || slices.Contains(k.Agents, a.Agent)) && (k.Kind == Env || a.Agent != Commands || k.Kind == Git)
		value, err := s.open(ctx, k)
		if err != nil && (gets || !Unreadable(err)) {
			return Given{}, err
		}
		if err != nil { // what cannot be read cannot be shown either
			continue
		}
		g.Masks = append(g.Masks, masksOf(k.Kind, value)...)
		if !gets {
			continue
		}
		if k.UserID != "" {
			ok, err := own()
			if err != nil {
				return Given{}, err
			}
			if !ok {
				g.Withheld++
				continue
			}
			g.Personal = true
		}
		switch k.Kind {
		case Env:
			g.Env[k.Name] = value
		case File:
			path, home := strings.CutPrefix(k.Target, "~/")
			f := PlacedFile{Home: home, Path: path, Value: value}
			if i, there := files[k.Target]; there {
				g.Files[i] = f
			} else {
				files[k.Target] = len(g.Files)
				g.Files = append(g.Files, f)
			}
		case Git:
			g.Git = append(g.Git, Credential{Host: k.Target, Username: k.Username, Token: value})
		}
		g.Uses = append(g.Uses, Use{ID: k.ID, Version: k.Version(), Sealed: k.SecretID, TeamID: k.TeamID, UserID: k.UserID, Kind: k.Kind})
		used = append(used, k.ID)
	}
	s.touch(ctx, used)
	return g, nil
}

// Masks returns every value that must not be shown where what they are about is: nobody is given them. What cannot be read cannot be shown
// either.
func (s *Service) Masks(ctx context.Context, a Ask) ([]string, error) {
	all, err := s.reach(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("reading secrets: %w", err)
	}
	var out []string
	for _, k := range all {
		value, err := s.open(ctx, k)
		if Unreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, masksOf(k.Kind, value)...)
	}
	return out, nil
}

// Credential returns the credential the server itself uses for a project's remote on a host: the project's own, else the team's; false
// when there is none for exactly this host. It never uses a user's own secret: the server's own actions are for everybody in the project.
func (s *Service) Credential(ctx context.Context, teamID, projectID, host string) (Credential, bool, error) {
	return s.CredentialFor(ctx, "", teamID, projectID, host)
}

// CredentialFor returns the credential with which a person does something on a host that they asked for just now, such as a push: their
// own, else as Credential.
func (s *Service) CredentialFor(ctx context.Context, userID, teamID, projectID, host string) (Credential, bool, error) {
	host, ok := cleanHost(host)
	if !ok {
		return Credential{}, false, nil
	}
	all, err := s.reach(ctx, Ask{TeamID: teamID, ProjectID: projectID, UserID: userID})
	if err != nil {
		return Credential{}, false, fmt.Errorf("reading git credentials: %w", err)
	}
	for _, k := range slices.Backward(all) {
		if k.Kind != Git || k.Target != host {
			continue
		}
		token, err := s.open(ctx, k)
		if err != nil {
			return Credential{}, false, err
		}
		s.touch(ctx, []string{k.ID})
		return Credential{Host: host, Username: k.Username, Token: token}, true, nil
	}
	return Credential{}, false, nil
}

// KeepCredential keeps what came with a project's URL as a secret of the project; one that is there already for the host gets the new value.
func (s *Service) KeepCredential(ctx context.Context, teamID, projectID, host, username, token, by string) error {
	host, ok := cleanHost(host)
	if !ok {
		return bad("target", "%q is not a host that a credential can be stored for.", host)
	}
	o := Owner{TeamID: teamID, ProjectID: projectID}
	return s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.cfg.Store.SessionSecrets(ctx, o)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(k Secret) bool { return k.Kind == Git && k.Target == host }) {
			return nil // moved before, or entered since
		}
		k, err := s.add(ctx, by, o, NewSecret{Kind: Git, Name: host, Target: host, Username: username, Value: token})
		if err != nil || s.cfg.Audit == nil {
			return err
		}
		return s.cfg.Audit.Append(ctx, audit.Entry{Chain: teamID, Action: "secret.added", TargetKind: "secret", TargetID: k.ID, TargetName: k.Name,
			Data: map[string]string{"kind": string(k.Kind), "scope": string(k.Scope()), "from": "url"}})
	})
}

// minMask is the length in bytes from which a part of a file is masked separately.
const minMask = 8

// masksOf returns what must not be shown of a value: the value, and of a file also what its lines set: the right side of NAME=value and
// "name": "value", and passwords of a netrc.
func masksOf(k Kind, value string) []string {
	out := []string{value}
	if trimmed := strings.TrimSpace(value); trimmed != value {
		out = append(out, trimmed)
	}
	if k != File && !strings.Contains(value, "\n") {
		return out
	}
	add := func(v string) {
		v = strings.Trim(strings.TrimSuffix(strings.TrimSpace(v), ","), `"' `+"\t")
		if len(v) >= minMask && utf8.ValidString(v) {
			out = append(out, v)
		}
	}
	for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if i := strings.IndexAny(line, "=:"); i >= 0 && i+1 < len(line) {
			add(line[i+1:])
			if j := strings.IndexByte(line, '='); j > i {
				add(line[j+1:])
			}
		}
		words := strings.Fields(line)
		for i, w := range words {
			if w == "password" && i+1 < len(words) {
				add(words[i+1])
			}
		}
	}
	return out
}

// Unreadable reports whether err says that a value cannot be opened.
func Unreadable(err error) bool { return fault.CodeOf(err) == "secret_unreadable" }
