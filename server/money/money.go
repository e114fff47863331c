// Package money has the operations of the HTTP API about what work costs: billing, usage, prices, the model gateway, and the graces of work
// that has reached a limit. A handler maps the request, calls one service and maps the answer. It starts no goroutine and takes no lock.
package money

import (
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/server/rest"
)

// Config is what the operations are made of.
type Config struct {
	Directory *directory.Service
	Ledger    *billing.Ledger
	Payments  *stripe.Service
	Prices    *price.Book
	Usage     *usage.Service
	Reports   *stripe.Reporter
	Tokens    *tokens.Meter
	Gateway   *gateway.Service
	Quota     *quota.Service
	Places    *manager.Manager
	Graces    Graces // of work that reached a limit; nil = none ever does

	GatewayEnabled bool // agents are pointed at the gateway

	Now func() time.Time
}

// group is what all operations of the package stand on.
type group struct {
	rest.Shared
	cfg Config
}

// The operations, a type for each subject.
type (
	// Billing is how a team pays.
	Billing struct{ *group }
	// Instance is how payment goes on the whole instance.
	Instance struct{ *group }
	// Usage is what was used, and what it costs.
	Usage struct {
		*group
		graces WorkGraces
	}
	// WorkGraces are the graces of work that reached a limit.
	WorkGraces struct{ *group }
	// Gateway is what agents ask of models.
	Gateway struct{ *group }
)

// Money has all operations of the package.
type Money struct {
	Billing
	Instance
	Usage
	WorkGraces
	Gateway
}

// New makes the operations.
func New(cfg Config, shared rest.Shared) Money {
	g := &group{shared, cfg}
	graces := WorkGraces{g}
	return Money{Billing{g}, Instance{g}, Usage{g, graces}, graces, Gateway{g}}
}
