package server

import (
	"net/http"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// credentialOf reads the Authorization header, else the session cookie. If the header is present, the cookie is ignored, so a
// script's call never acts with the rights of a browser's cookie.
func (s *Server) credentialOf(r *http.Request) (rest.Credential, error) {
	if auth, ok := r.Header["Authorization"]; ok {
		scheme, token, _ := strings.Cut(auth[0], " ")
		token = strings.TrimSpace(token)
		if len(auth) != 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
			return rest.Credential{}, fault.New(fault.Unauthorized, "invalid_token", "The Authorization header must be: Bearer pw_user_...")
		}
		return rest.Credential{Bearer: token, IP: s.AddressOf(r)}, nil
	}
	names := []string{rest.HostCookie}
	if !s.Secure(r) {
		names = append(names, rest.PlainCookie)
	}
	for _, name := range names {
		if c, err := r.Cookie(name); err == nil && c.Value != "" {
			return rest.Credential{Cookie: c.Value}, nil
		}
	}
	return rest.Credential{}, nil
}
