// Package network decides which hosts a workspace's agents may reach: it merges the rules of the operator, the project and the workspace
// with the hosts the agents themselves need. It records refused connections, so that people see them and can allow the hosts. The gate
// enforces the rules for isolated sandboxes; an executor without isolation has the server's own network, and the rules do not apply there.
//
// Goroutines: Run has one.
package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostname"
)

// Policy is a project's network policy.
type Policy struct {
	Mode          executors.NetworkMode `json:"mode,omitempty"` // "" = the instance's
	Allow         []string              `json:"allow,omitempty"`
	WithoutAgents bool                  `json:"without_agents,omitempty"` // the agents' hosts are not allowed automatically
}

// Said is the stored network configuration of a workspace.
type Said struct {
	TeamID    string
	ProjectID string
	Project   Policy
	Own       Policy   // of this workspace: it takes away from the project's; see Narrow
	Allowed   []string // for this workspace alone
}

// Refused is a host a workspace was denied. Times are ms UTC.
type Refused struct {
	executors.Refusal
	Times   int64
	FirstAt int64
	LastAt  int64
}

// Reached is a host a workspace connected to. Times are ms UTC.
type Reached struct {
	executors.Reach
	Times   int64
	FirstAt int64
	LastAt  int64
}

// Store is the storage the package needs.
type Store interface {
	PolicyStore
	RecordStore
}

// PolicyStore stores what projects and workspaces may reach.
type PolicyStore interface {
	// Said returns the stored configuration of a workspace that is not deleted.
	Said(ctx context.Context, workspaceID string) (Said, error)
	// SaidOf is Said for many workspaces, by id; deleted ones are left out.
	SaidOf(ctx context.Context, workspaceIDs []string) (map[string]Said, error)
	// ProjectPolicies returns the policies of a team's projects that have one, by id.
	ProjectPolicies(ctx context.Context, teamID string) (map[string]Policy, error)
	// SetProjectPolicy replaces a project's policy.
	SetProjectPolicy(ctx context.Context, projectID string, p Policy) error
	// EditAllowed changes what is allowed for one workspace only.
	EditAllowed(ctx context.Context, workspaceID string, fn func([]string) ([]string, error)) error
	// BaseURLs returns the addresses of the agents' accounts a team shares and of those of its owners and admins.
	BaseURLs(ctx context.Context, teamID string) ([]string, error)
}

// RecordStore stores what workspaces reached and were refused.
type RecordStore interface {
	// AddRefused adds refusals to those known, keeps the newest most of each workspace, and returns the workspaces that have a new one. It
	// drops those of deleted workspaces.
	AddRefused(ctx context.Context, all []Refused, most int) (news []string, err error)
	// Refused returns what a workspace was refused, the newest first.
	Refused(ctx context.Context, workspaceID string) ([]Refused, error)
	// AddReached adds connections to those known and keeps the newest most of each workspace. It drops those of deleted workspaces.
	AddReached(ctx context.Context, all []Reached, most int) error
	// Reached returns what a workspace reached, the newest first.
	Reached(ctx context.Context, workspaceID string) ([]Reached, error)
	// DropRefused removes refusals.
	DropRefused(ctx context.Context, workspaceID string, all []Refused) error
}

// Gates enforce the rules.
type Gates interface {
	Update(workspaceID string, n executors.Network)
	Workspaces() []string // that have an open one
}

// Config of a Service. Store and Gates are required.
type Config struct {
	Store      Store
	Gates      Gates
	Events     events.Publisher // optional
	Mode       executors.NetworkMode
	Allow      []string // names allowed in every project with a list
	AgentHosts []string // what the available agents need: to reach their models and to sign in
	AgentURLs  []string // addresses the operator gives to agents
	Now        func() time.Time
	After      func(time.Duration) <-chan time.Time // default time.After
	Log        *slog.Logger
}

// Service answers what a workspace may reach. Safe for concurrent use.
type Service struct {
	cfg    Config
	base   []string // of the instance
	agents []string // hosts agents need

	changes atomic.Int64 // number of rule changes in this process
	wake    chan struct{}
	mu      sync.Mutex
	refused gathered[Refused]
	reached gathered[Reached]
}

// New makes a Service. It starts nothing.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Gates == nil {
		return nil, errors.New("network: Store and Gates are required")
	}
	cfg.Mode = cmp.Or(cfg.Mode, executors.NetworkOpen)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	base, err := clean(cfg.Allow)
	if err != nil {
		return nil, fmt.Errorf("sandboxing.network.allow: %w", err)
	}
	if !known(cfg.Mode) {
		return nil, fmt.Errorf("sandboxing.network.mode: %q is not known", cfg.Mode)
	}
	return &Service{cfg: cfg, base: base, agents: agentHosts(cfg.AgentHosts, cfg.AgentURLs), wake: make(chan struct{}, 1),
		refused: gather[Refused](maxRefused), reached: gather[Reached](maxReached)}, nil
}

func known(m executors.NetworkMode) bool {
	return m == executors.NetworkOpen || m == executors.NetworkAllow || m == executors.NetworkNone
}

// Name is an entry of a workspace's list, with its origin.
type Name struct {
	Name   string
	From   string // instance, project, workspace or preset
	Preset string // "@agents", "@registries", ...; "" when it is from no preset
}

// Origins of names, as in the API.
const (
	FromInstance  = "instance"
	FromProject   = "project"
	FromWorkspace = "workspace"
	FromPreset    = "preset"
)

// baseURLs reads the addresses of the accounts of a team's agents.
type baseURLs func(ctx context.Context, teamID string) ([]string, error)

// effective merges the configuration: the mode, who set it, and the list.
func (s *Service) effective(ctx context.Context, said Said, bases baseURLs) (mode executors.NetworkMode, source string, names []Name, err error) {
	mode, source, names, err = s.ofProject(ctx, said, bases)
	if err != nil {
		return "", "", nil, err
	}
	mode, source, names = narrowed(said.Own, mode, source, names, said.Allowed)
	return mode, source, names, nil
}

// ofProject is effective without the workspace's own policy.
func (s *Service) ofProject(ctx context.Context, said Said, bases baseURLs) (mode executors.NetworkMode, source string, names []Name, err error) {
	mode, source = said.Project.Mode, FromProject
	if mode == "" {
		mode, source = s.cfg.Mode, FromInstance
	}
	if mode != executors.NetworkAllow {
		return mode, source, nil, nil
	}
	seen := map[string]bool{}
	add := func(name, from, preset string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, Name{name, from, preset})
		}
	}
	for _, l := range []struct {
		from string
		list []string
	}{{FromWorkspace, said.Allowed}, {FromProject, said.Project.Allow}, {FromInstance, s.base}} {
		for _, n := range expand(l.list, l.from) {
			add(n.Name, n.From, n.Preset)
		}
	}
	if !said.Project.WithoutAgents {
		urls, err := bases(ctx, said.TeamID)
		if err != nil {
			return "", "", nil, fmt.Errorf("reading the addresses of agents' accounts: %w", err)
		}
		for _, h := range slices.Concat(s.agents, hostsOf(urls)) {
			add(h, FromPreset, agentsPreset)
		}
	}
	return mode, source, names, nil
}

// Network returns what a workspace may reach now.
func (s *Service) Network(ctx context.Context, workspaceID string) (executors.Network, error) {
	said, err := s.cfg.Store.Said(ctx, workspaceID)
	if err != nil {
		return executors.Network{}, err
	}
	return s.network(ctx, said, s.cfg.Store.BaseURLs)
}

func (s *Service) network(ctx context.Context, said Said, bases baseURLs) (executors.Network, error) {
	mode, _, names, err := s.effective(ctx, said, bases)
	n := executors.Network{Mode: mode}
	for _, name := range names {
		n.Allow = append(n.Allow, name.Name)
	}
	return n, err
}

// Project returns what work for a project outside of its workspaces may reach now: its builds.
func (s *Service) Project(ctx context.Context, teamID, projectID string) (executors.Network, error) {
	all, err := s.cfg.Store.ProjectPolicies(ctx, teamID)
	if err != nil {
		return executors.Network{}, err
	}
	return s.network(ctx, Said{TeamID: teamID, ProjectID: projectID, Project: all[projectID]}, s.cfg.Store.BaseURLs)
}

// Info describes a workspace's network to people.
type Info struct {
	Mode    executors.NetworkMode
	Source  string // instance, project or workspace
	Names   []Name
	Refused []Refused // the newest first
	Full    bool      // older refusals were dropped to make room
}

// maxRefused is how many refused hosts of a workspace are stored.
const maxRefused = 200

// Show describes a workspace's network to people.
func (s *Service) Show(ctx context.Context, workspaceID string) (Info, error) {
	said, err := s.cfg.Store.Said(ctx, workspaceID)
	if err != nil {
		return Info{}, err
	}
	var info Info
	if info.Mode, info.Source, info.Names, err = s.effective(ctx, said, s.cfg.Store.BaseURLs); err != nil {
		return Info{}, err
	}
	info.Refused, err = s.cfg.Store.Refused(ctx, workspaceID)
	info.Full = len(info.Refused) >= maxRefused
	return info, err
}

// Allowable reports whether allowing the host for a workspace would help.
func (i Info) Allowable(r Refused) bool {
	return i.Mode == executors.NetworkAllow && (r.Reason == executors.NotListed || r.Reason == executors.BadPort)
}

// Maximum number of entries of a list.
const (
	maxProject   = 500
	maxWorkspace = 200
)

// Allow lets a workspace reach a host in addition to its project's.
func (s *Service) Allow(ctx context.Context, workspaceID, host string) error {
	said, err := s.cfg.Store.Said(ctx, workspaceID)
	if err != nil {
		return err
	}
	names, err := clean([]string{host})
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "invalid_host", "%s.", upper(err.Error()))
	}
	switch mode, _, _, err := s.effective(ctx, said, s.cfg.Store.BaseURLs); {
	case err != nil:
		return err
	case mode == executors.NetworkOpen:
		return fault.New(fault.Conflict, "network_not_a_list", "This project's network is open: hosts need not be allowed one by one. Refused hosts are inside a private network, which an operator can allow.")
	case mode == executors.NetworkNone:
		return fault.New(fault.Conflict, "network_not_a_list", "This project's workspaces have no network. Set the project's network to a list of hosts first.")
	}
	err = s.cfg.Store.EditAllowed(ctx, workspaceID, func(all []string) ([]string, error) {
		if slices.Contains(all, names[0]) {
			return all, nil
		}
		if len(all) >= maxWorkspace {
			return nil, fault.New(fault.Conflict, "too_many_hosts", "%d hosts are allowed for this workspace already. Remove some, or allow more for the whole project.", len(all))
		}
		return append(all, names[0]), nil
	})
	if err != nil {
		return err
	}
	if err := s.forgetAllowed(ctx, workspaceID); err != nil {
		s.cfg.Log.WarnContext(ctx, "outdated refusals could not be removed", "workspace_id", workspaceID, "error", err)
	}
	s.changed(ctx, said.TeamID, workspaceID)
	return nil
}

// forgetAllowed removes refusals of hosts that may be reached now.
func (s *Service) forgetAllowed(ctx context.Context, workspaceID string) error {
	n, err := s.Network(ctx, workspaceID)
	if err != nil {
		return err
	}
	all, err := s.cfg.Store.Refused(ctx, workspaceID)
	if err != nil {
		return err
	}
	over := slices.DeleteFunc(all, func(r Refused) bool {
		return (r.Reason != executors.NotListed && r.Reason != executors.BadPort) || !slices.ContainsFunc(n.Allow, func(name string) bool {
			p, err := hostname.Parse(name)
			return err == nil && p.Names(r.Host) && executors.MayPort(n.Mode, p.Port(), r.Port)
		})
	})
	return s.cfg.Store.DropRefused(ctx, workspaceID, over)
}

// Disallow reverses Allow. It ends connections to the host.
func (s *Service) Disallow(ctx context.Context, workspaceID, host string) error {
	said, err := s.cfg.Store.Said(ctx, workspaceID)
	if err != nil {
		return err
	}
	if names, err := clean([]string{host}); err == nil {
		host = names[0]
	}
	err = s.cfg.Store.EditAllowed(ctx, workspaceID, func(all []string) ([]string, error) {
		i := slices.Index(all, host)
		if i < 0 {
			return nil, fault.New(fault.NotFound, "host_not_listed", "%s is not among the hosts allowed for this workspace alone.", host)
		}
		return slices.Delete(all, i, i+1), nil
	})
	if err != nil {
		return err
	}
	s.changed(ctx, said.TeamID, workspaceID)
	return nil
}

// CheckPolicy normalizes a project's policy as entered by people.
func CheckPolicy(p Policy) (Policy, error) {
	if p.Mode != "" && !known(p.Mode) {
		return p, fault.New(fault.Invalid, "invalid_network", "The network is open, allow (a list of hosts), none, or empty for the instance's own.")
	}
	if len(p.Allow) > maxProject {
		return p, fault.New(fault.Invalid, "invalid_network", "A project's list has at most %d hosts.", maxProject)
	}
	var err error
	if p.Allow, err = clean(p.Allow); err != nil {
		return p, fault.Wrap(err, fault.Invalid, "invalid_host", "%s.", upper(err.Error()))
	}
	return p, nil
}

// SetProject replaces a project's policy, which CheckPolicy has normalized. It takes effect at once, for live sandboxes too.
func (s *Service) SetProject(ctx context.Context, projectID string, p Policy) error {
	if err := s.cfg.Store.SetProjectPolicy(ctx, projectID, p); err != nil {
		return err
	}
	s.changes.Add(1)
	all, err := s.cfg.Store.SaidOf(ctx, s.cfg.Gates.Workspaces())
	if err != nil { // the gates read it within a minute
		s.cfg.Log.WarnContext(ctx, "the workspaces affected by a project's network policy could not be read", "project_id", projectID, "error", err)
		return nil
	}
	maps.DeleteFunc(all, func(_ string, said Said) bool { return said.ProjectID != projectID })
	ids := slices.Sorted(maps.Keys(all))
	s.refreshAll(ctx, ids)
	for _, id := range ids {
		s.publish(ctx, all[id].TeamID, id)
	}
	return nil
}

// Policies returns the policies of a team's projects that have one.
func (s *Service) Policies(ctx context.Context, teamID string) (map[string]Policy, error) {
	return s.cfg.Store.ProjectPolicies(ctx, teamID)
}

// Default returns the mode of projects that name none.
func (s *Service) Default() executors.NetworkMode { return s.cfg.Mode }

// changed sends the workspace's new rules to the gates, and notifies the team.
func (s *Service) changed(ctx context.Context, teamID, workspaceID string) {
	s.changes.Add(1)
	s.refresh(ctx, workspaceID)
	s.publish(ctx, teamID, workspaceID)
}

// refreshAll is refresh for many: it reads their configuration in one query, and a team's once.
func (s *Service) refreshAll(ctx context.Context, ids []string) {
	changes := s.changes.Load()
	all, err := s.cfg.Store.SaidOf(ctx, ids)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "what workspaces may reach could not be read", "count", len(ids), "error", err)
		}
		return
	}
	type answer struct {
		urls []string
		err  error
	}
	known := map[string]answer{}
	bases := func(ctx context.Context, teamID string) ([]string, error) {
		a, ok := known[teamID]
		if !ok {
			a.urls, a.err = s.cfg.Store.BaseURLs(ctx, teamID)
			known[teamID] = a
		}
		return a.urls, a.err
	}
	for _, id := range ids {
		if s.changes.Load() != changes { // since it was read: older rules must not replace the gate's own
			s.refresh(ctx, id)
			continue
		}
		n := executors.Network{Mode: executors.NetworkNone} // of a deleted workspace
		if said, there := all[id]; there {
			if n, err = s.network(ctx, said, bases); err != nil {
				s.unreadable(ctx, id, err)
				continue
			}
		}
		s.cfg.Gates.Update(id, n)
	}
}

// unreadable logs that a gate keeps its rules.
func (s *Service) unreadable(ctx context.Context, workspaceID string, err error) {
	if ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "what a workspace may reach could not be read", "workspace_id", workspaceID, "error", err)
	}
}

func (s *Service) refresh(ctx context.Context, workspaceID string) {
	n, err := s.Network(ctx, workspaceID)
	switch {
	case fault.Is(err, fault.NotFound):
		n = executors.Network{Mode: executors.NetworkNone} // it is gone
	case err != nil:
		s.unreadable(ctx, workspaceID, err)
		return
	}
	s.cfg.Gates.Update(workspaceID, n)
}

func (s *Service) publish(ctx context.Context, teamID, workspaceID string) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "network.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.cfg.Now().UnixMilli()})
	}
}

// clean normalizes the entries of a list and removes duplicates.
func clean(list []string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, line := range list {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "@") {
			if _, is := presets[strings.ToLower(line)]; !is {
				return nil, fmt.Errorf("Parawork does not know the list %.40q; it knows %s", line, strings.Join(presetNames(), " and "))
			}
			line = strings.ToLower(line)
		} else {
			p, err := hostname.Parse(line)
			if err != nil {
				return nil, err
			}
			line = p.String()
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out, nil
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// hostsOf returns the hosts of addresses, with their ports.
func hostsOf(urls []string) []string {
	var out []string
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		host, err := hostname.Normal(u.Hostname())
		if err != nil {
			continue
		}
		line := host
		if port := u.Port(); port != "" && port != "80" && port != "443" {
			if _, n, err := hostname.Split("x:" + port); err == nil {
				line = hostname.Join(host, n)
			}
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
