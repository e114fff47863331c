// Package places has the operations of the HTTP API about where work runs: the places a team may choose, members' machines and how they are
// connected, sandboxes, the network, what has come to the server of a sandbox's files, and the settings of places. A handler maps the
// request, calls one service and maps the answer. It starts no goroutine and takes no lock.
package places

import (
	"context"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/server/rest"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/move"
)

// Config is what the operations are made of.
type Config struct {
	Version string // of the server: machines with another one see a hint

	Directory  *directory.Service
	Workspaces *assembly.Workspaces
	Moves      *move.Service
	Files      *filesync.Service
	Places     *manager.Manager
	Choice     *choice.Chooser
	Executors  *executors.Registry
	Machines   *machines.Service
	Downloads  *machines.Downloads // programs for machines
	Network    *network.Service
	Ledger     *billing.Ledger
	Quota      *quota.Service
	Policies   PolicyStore           // what teams say about their places
	Caches     *caches.Caches        // what teams share; nil = nothing
	Settings   *settings.Service     // what operators say about places
	Kinds      executors.Descriptors // of places
	People     PeopleStore           // what people may and want of places

	AddRegions func(context.Context) error // makes the executors of regions that have none yet; nil = there are none
	// RemoveRegion forgets a region that operators added, unless it is used; nil = there are none.
	RemoveRegion func(ctx context.Context, by string, region executors.Kind) error
}

// group is what all operations of the package stand on.
type group struct {
	rest.Shared
	cfg Config
}

// The operations, a type for each subject.
type (
	// Standings are the places a team may choose, and how they stand.
	Standings struct{ *group }
	// Machines are members' own machines.
	Machines struct{ *group }
	// Enrolment is how machines are connected.
	Enrolment struct {
		*group
		machines Machines
	}
	// Sandboxes are what runs work now.
	Sandboxes struct {
		*group
		machines Machines
	}
	// Network is what sandboxes reach.
	Network struct{ *group }
	// Sync is what has come to the server of a sandbox's files.
	Sync struct{ *group }
	// Instance is what operators say about places.
	Instance struct{ *group }
)

// Places has all operations of the package.
type Places struct {
	Standings
	Machines
	Enrolment
	Sandboxes
	Network
	Sync
	Instance
}

// New makes the operations.
func New(cfg Config, shared rest.Shared) Places {
	g := &group{shared, cfg}
	m := Machines{g}
	return Places{Standings{g}, m, Enrolment{g, m}, Sandboxes{g, m}, Network{g}, Sync{g}, Instance{g}}
}
