package rest

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// MaxInput is how many bytes can be typed at once.
const MaxInput = guest.MaxInput

// HostPath turns a folder of the server as the API names it into its bytes.
func HostPath(wire string) (string, error) {
	raw := guest.DecodePath(wire)
	if strings.IndexByte(raw, 0) >= 0 || len(raw) > guest.MaxPath {
		return "", fault.New(fault.Invalid, "invalid_path", "That is not the path of a folder.").With("field", "path")
	}
	return raw, nil
}

// PlainID reports whether s can be an id, or is empty. Anything else names nothing and is kept from the database.
func PlainID(s string) bool {
	if len(s) > 64 {
		return false
	}
	for i := range len(s) {
		b := s[i]
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-') {
			return false
		}
	}
	return true
}

// PathID returns the id in the path. Ids are letters, digits, _ and -; anything else names nothing, and is kept from the services.
func PathID(c echo.Context) (string, error) {
	id := c.Param("id")
	if id == "" || !PlainID(id) {
		return "", ErrNotFound
	}
	return id, nil
}

// Base is where the addresses of the API begin.
const Base = "/api/v1"

// MaxFile is how many bytes a file that is sent may have.
const MaxFile = 1 << 30
