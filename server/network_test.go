package server

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store"
)

func TestTheNetworkOfAWorkspace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	as := func(who string) []string { return []string{"Authorization", "Bearer " + p.tokens[who]} }
	project, workspace := "/api/v1/projects/"+p.ids["project"], "/api/v1/workspaces/"+p.ids["workspace"]+"/network"
	show := func(who string) api.Network {
		t.Helper()
		var n api.Network
		r := h.do("GET", workspace, "", as(who)...)
		if r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		r.into(t, &n)
		return n
	}
	n := show("viewer")
	if n.Mode != api.NetworkModeOpen || n.Source != api.NetworkSourceInstance || n.Enforced != nil || n.MayAllow || len(n.Names)+len(n.Refused) != 0 {
		t.Errorf("%+v", n)
	}
	if r := h.do("POST", workspace+"/allow", `{"host":"x.example"}`, as("admin")...); r.StatusCode != 409 || r.code() != "network_not_a_list" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}

	var got api.Project
	patch := func(who, body string) reply { return h.do("PATCH", project, body, as(who)...) }
	if r := patch("member", `{"network":{"mode":"allow"}}`); r.StatusCode != 403 {
		t.Errorf("a member may change the project's network: %d", r.StatusCode)
	}
	for body, code := range map[string]string{`{"name":"other","network":{"mode":"sometimes"}}`: "invalid_network", `{"name":"other","network":{"allow":["a b"]}}`: "invalid_host",
		`{"name":"other","network":{"allow":["@nothing"]}}`: "invalid_host"} {
		if r := patch("admin", body); r.StatusCode != 400 || r.code() != code {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	r := patch("admin", `{"network":{"mode":"allow","allow":["API.example","@git"],"agent_hosts":false}}`)
	r.into(t, &got)
	if r.StatusCode != 200 || got.Name != "p" || got.Network.Mode != "allow" || !slices.Equal(got.Network.Allow, []string{"api.example", "@git"}) || got.Network.AgentHosts || got.Network.DefaultMode != "open" {
		t.Errorf("%d %+v", r.StatusCode, got)
	}
	patch("admin", `{"network":{"agent_hosts":true}}`).into(t, &got)
	if got.Network.Mode != "allow" || len(got.Network.Allow) != 2 || !got.Network.AgentHosts {
		t.Errorf("what is left out did not stay: %+v", got.Network)
	}
	var all api.ProjectList
	h.do("GET", "/api/v1/teams/"+p.team.Slug+"/projects", "", as("viewer")...).into(t, &all)
	if len(all.Items) != 1 || all.Items[0].Network.Mode != "allow" {
		t.Errorf("%+v", all.Items)
	}

	// Something was refused; an admin allows it; a member may only look.
	kept := store.NewNetwork(h.db)
	refused := network.Refused{Refusal: executors.Refusal{TeamID: p.team.ID, WorkspaceID: p.ids["workspace"], Host: "x.example", Port: 443, Reason: executors.NotListed}, Times: 3, FirstAt: 1, LastAt: 2}
	inside := refused
	inside.Host, inside.Reason, inside.LastAt = "10.0.0.1", executors.PrivateAddress, 1
	if _, err := kept.AddRefused(t.Context(), []network.Refused{refused, inside}, 200); err != nil {
		t.Fatal(err)
	}
	n = show("member")
	if len(n.Refused) != 2 || n.Refused[0].Host != "x.example" || !n.Refused[0].Allowable || n.Refused[0].Explanation == "" || n.Refused[0].Times != 3 || n.Refused[1].Allowable || n.MayAllow {
		t.Errorf("%+v", n.Refused)
	}
	if r := h.do("POST", workspace+"/allow", `{"host":"x.example"}`, as("member")...); r.StatusCode != 403 {
		t.Errorf("a member may allow hosts: %d", r.StatusCode)
	}
	r = h.do("POST", workspace+"/allow", `{"host":"X.example"}`, as("admin")...)
	r.into(t, &n)
	from := map[string]string{}
	for _, name := range n.Names {
		from[name.Name] = fmt.Sprint(name.From)
	}
	if r.StatusCode != 200 || from["x.example"] != "workspace" || from["api.example"] != "project" || from["github.com"] != "preset" || from["api.openai.com"] != "preset" ||
		len(n.Refused) != 1 || !n.MayAllow {
		t.Errorf("%d %+v", r.StatusCode, n)
	}
	r = h.do("DELETE", workspace+"/allow?host="+url.QueryEscape("x.example"), "", as("owner")...)
	r.into(t, &n)
	if r.StatusCode != 200 || slices.ContainsFunc(n.Names, func(x api.NetworkName) bool { return x.Name == "x.example" }) {
		t.Errorf("%d %+v", r.StatusCode, n.Names)
	}
	if r := h.do("DELETE", workspace+"/allow?host=x.example", "", as("owner")...); r.StatusCode != 404 || r.code() != "host_not_listed" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
