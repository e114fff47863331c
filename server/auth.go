package server

import (
	"net/http"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// credentialOf reads the Authorization header, else the session cookie. A header that is there counts alone, so that a page's
// cookie never lends its rights to a script's call.
func (s *Server) credentialOf(r *http.Request) (credential, error) {
	if auth, ok := r.Header["Authorization"]; ok {
		scheme, token, _ := strings.Cut(auth[0], " ")
		token = strings.TrimSpace(token)
		if len(auth) != 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
			return credential{}, fault.New(fault.Unauthorized, "invalid_token", "The Authorization header must be: Bearer pw_user_...")
		}
		return credential{bearer: token, ip: s.addressOf(r)}, nil
	}
	names := []string{hostCookie}
	if !s.secure(r) {
		names = append(names, plainCookie)
	}
	for _, name := range names {
		if c, err := r.Cookie(name); err == nil && c.Value != "" {
			return credential{cookie: c.Value}, nil
		}
	}
	return credential{}, nil
}
