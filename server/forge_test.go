package server

import (
	"context"
	"net/http"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testaccounts"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/origin"
)

// unpushed is the branch of a pull request that nobody tends here.
type unpushed struct{ tending.Branch }

// forging makes the forge service without network access.
func forging(db *store.DB, ws *assembly.Workspaces, from *origin.Service, sec *secrets.Service, people *testaccounts.Accounts) *forge.Service {
	return forge.New(forge.Config{Store: store.NewForge(db), Workspaces: ws.Records, Origin: from, Credentials: sec, People: people, HTTP: http.DefaultTransport,
		Push: func(context.Context, accounts.Actor, string) (forge.Pushed, error) {
			return forge.Pushed{}, rest.ErrNotFound
		}})
}
