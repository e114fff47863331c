package fromconfig

import (
	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/config"
)

// SignInProviders are those people may sign in with.
func SignInProviders(c config.Accounts) []sso.Provider {
	var out []sso.Provider
	for _, p := range c.SignIn() {
		groups := map[string][]sso.Place{}
		for group, places := range p.Groups {
			for _, g := range places {
				groups[group] = append(groups[group], sso.Place{Team: g.Team, Role: accounts.Role(g.Role)})
			}
		}
		out = append(out, sso.Provider{ID: p.ID, Name: p.Name, Kind: sso.Kind(p.Kind), Issuer: p.Issuer, ClientID: p.ClientID, ClientSecret: p.ClientSecret, Scopes: p.Scopes,
			AllowedDomains: p.AllowedDomains, CreateUsers: p.CreateUsers, LinkByEmail: p.LinkByEmail, TrustSecondFactor: p.TrustSecondFactor,
			GroupsClaim: p.GroupsClaim, Groups: groups, AllowedOrganizations: p.AllowedOrganizations, BaseURL: p.BaseURL})
	}
	return out
}
