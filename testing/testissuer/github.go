package testissuer

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// GitHub is the base address of the GitHub beside the issuer, as one of one's own has it.
func (i *Issuer) GitHub() string { return i.base + "/github" }

func (i *Issuer) gitHub() {
	i.mux.HandleFunc("GET /github/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	i.mux.HandleFunc("GET /github/login/oauth/authorize", func(w http.ResponseWriter, r *http.Request) { i.ask(w, r, true) })
	i.mux.HandleFunc("POST /github/login/oauth/access_token", i.gitHubToken)
	api := func(path string, fn func(p Person, r *http.Request) (int, any)) {
		i.mux.HandleFunc("GET /github/api/v3"+path, func(w http.ResponseWriter, r *http.Request) {
			p, ok := i.bearer(r)
			if !ok || r.Header.Get("X-GitHub-Api-Version") == "" {
				answer(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
				return
			}
			status, v := fn(p, r)
			answer(w, status, v)
		})
	}
	api("/user", func(p Person, _ *http.Request) (int, any) {
		id, _ := strconv.ParseInt(p.Subject, 10, 64)
		return http.StatusOK, map[string]any{"id": id, "login": p.Login, "name": p.Name, "email": "shown-to-all@example.org"}
	})
	api("/user/emails", func(p Person, _ *http.Request) (int, any) {
		return http.StatusOK, []any{map[string]any{"email": "other-" + p.Email, "primary": false, "verified": true}, map[string]any{"email": p.Email, "primary": true, "verified": p.Verified}}
	})
	api("/user/memberships/orgs/{org}", func(p Person, r *http.Request) (int, any) {
		if slices.Contains(p.Orgs, r.PathValue("org")) {
			return http.StatusOK, map[string]any{"state": "active"}
		}
		if slices.Contains(p.Orgs, "pending:"+r.PathValue("org")) {
			return http.StatusOK, map[string]any{"state": "pending"}
		}
		return http.StatusNotFound, map[string]any{"message": "Not Found"}
	})
	api("/user/memberships/orgs", func(p Person, r *http.Request) (int, any) {
		var out []any
		for _, o := range p.Orgs {
			if !strings.HasPrefix(o, "pending:") {
				out = append(out, map[string]any{"state": "active", "organization": map[string]any{"login": o}})
			}
		}
		return http.StatusOK, pageOf(out, r)
	})
	api("/user/teams", func(p Person, r *http.Request) (int, any) {
		var out []any
		for _, t := range p.Teams {
			org, slug, _ := strings.Cut(t, "/")
			out = append(out, map[string]any{"slug": slug, "organization": map[string]any{"login": org}})
		}
		return http.StatusOK, pageOf(out, r)
	})
}

// pageOf is the page of a list that a request asks for.
func pageOf(all []any, r *http.Request) []any {
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	from := min(max(0, (n-1)*size), len(all))
	return append([]any{}, all[from:min(from+size, len(all))]...)
}

// gitHubToken answers errors with 200, as GitHub does.
func (i *Issuer) gitHubToken(w http.ResponseWriter, r *http.Request) {
	a, _, code := i.redeem(r, true)
	if code != "" {
		answer(w, http.StatusOK, map[string]any{"error": map[string]string{"invalid_client": "incorrect_client_credentials"}[code] + map[string]string{"invalid_grant": "bad_verification_code"}[code]})
		return
	}
	access := random()
	i.mu.Lock()
	i.tokens[access] = a.who
	i.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "bearer", "scope": strings.Join(a.scopes, ",")})
}
