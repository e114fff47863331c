package server

import (
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/people"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/server/tooling"
	"github.com/parawork/parawork/server/work"
)

// operations carries the operations of openapi.yaml: those of each subject's package, and the few that speak of the server itself, its
// sockets and its ports. Two with one name do not compile.
type operations struct {
	*Server
	money.Money
	work.Work
	people.People
	places.Places
	running.Running
	tooling.Tooling
}

var _ api.StrictServerInterface = operations{}

// operations makes them: each subject is given the services it uses.
func (s *Server) operations() operations {
	cfg := s.cfg
	shared := rest.Shared{Privacy: s.Privacy, Browsers: s.Browsers, Throttle: s.throttle, Log: cfg.Log}
	place := places.New(places.Config{Version: cfg.Version, People: cfg.People, AddRegions: cfg.AddRegions, RemoveRegion: cfg.RemoveRegion, Directory: cfg.Directory, Workspaces: cfg.Workspaces, Moves: cfg.Moves, Files: cfg.Files, Places: cfg.Places, Choice: cfg.Choice, Executors: cfg.Executors, Machines: cfg.Machines,
		Downloads: cfg.Downloads, Network: cfg.Network, Ledger: cfg.Ledger, Quota: cfg.Quota, Policies: cfg.Policies, Caches: cfg.Caches, Settings: cfg.Settings, Kinds: cfg.Kinds}, shared)
	costs := money.New(money.Config{Directory: cfg.Directory, Ledger: cfg.Ledger, Payments: cfg.Payments, Prices: cfg.Prices, Usage: cfg.Usage, Reports: cfg.Reports, Tokens: cfg.Tokens,
		Gateway: cfg.Gateway, Quota: cfg.Quota, Places: cfg.Places, Graces: cfg.Graces, GatewayEnabled: cfg.GatewayEnabled, Now: cfg.Now}, shared)
	return operations{Server: s,
		Places: place,
		Work: work.New(work.Config{Directory: cfg.Directory, Workspaces: cfg.Workspaces, Moves: cfg.Moves, Origin: cfg.Origin, Places: cfg.Places, Choice: cfg.Choice, Meters: cfg.Meters, Ledger: cfg.Ledger,
			Tokens: cfg.Tokens, Files: cfg.Files, Sandboxes: cfg.Sandboxes, Sessions: cfg.Sessions, Secrets: cfg.Secrets, Runs: cfg.Runs, Starts: cfg.Starts, Tasks: cfg.Tasks, Artifacts: cfg.Artifacts, Report: cfg.Report, Reviews: cfg.Reviews,
			Forge: cfg.Forge, Tending: cfg.Tending, Disk: cfg.Disk, Images: cfg.Images, Checks: cfg.Checks, Overlap: cfg.Overlap, Network: cfg.Network, Viewed: cfg.Viewed,
			Graces: cfg.Graces, Now: cfg.Now, GraceViews: costs.WorkGraces, MachineViews: place.Machines, PlaceViews: place.Standings, NetworkViews: place.Network,
			Admission: s.Admission}, shared),
		People: people.New(people.Config{Directory: cfg.Directory, SignIn: cfg.SignIn, AgentAccounts: cfg.AgentAccounts, Avatars: cfg.Avatars, SSO: cfg.SSO, Workspaces: cfg.Workspaces, Quota: cfg.Quota, Sessions: cfg.Sessions,
			Notify: cfg.Notify, Secrets: cfg.Secrets, Mail: cfg.Mail, Audit: cfg.Audit, Settings: cfg.Settings, Now: cfg.Now}, shared),
		Running: running.New(running.Config{Image: cfg.Image, Directory: cfg.Directory, Sessions: cfg.Sessions, Prompts: cfg.Sessions.Queue, Questions: cfg.Sessions.Board, History: cfg.History,
			Commands: cfg.Commands, Code: cfg.Code, Sandboxes: cfg.Sandboxes, Demo: cfg.Demo, Agent: cfg.Agent, Models: cfg.Models, Jobs: cfg.Jobs, Automations: cfg.Automations, Places: cfg.Places, Images: cfg.Images, Tokens: cfg.Tokens, Standings: place.Standings, Costs: cfg.Ledger.Costs, Parents: cfg.Subagents.Parents, SecretsIn: cfg.Secrets.InAnswers, Now: cfg.Now}, shared),
		Tooling: tooling.New(tooling.Config{Tools: cfg.Tools, Subagents: cfg.Subagents, Artifacts: cfg.Artifacts, Content: s.content, PublicURL: cfg.PublicURL, Tasks: cfg.Tasks, Issues: cfg.Issues, Checkpoints: cfg.Checkpoints, Calls: cfg.ToolCalls, Groups: cfg.ToolGroups, Memory: cfg.Memory, Skills: cfg.Skills, Edits: cfg.Edits, Languages: cfg.Languages, Desktops: cfg.Desktops, Permissions: cfg.Permissions, Directory: cfg.Directory, Now: cfg.Now}, shared),
		Money:   costs,
	}
}
