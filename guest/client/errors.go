package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// kinds are those a guest may use: being signed out, or having used up a quota, are for the host to report.
var kinds = []fault.Kind{fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict, fault.Precondition, fault.TooLarge,
	fault.Unavailable, fault.Gone, fault.Unsupported, fault.Timeout, fault.DiskFull}

// readError turns an error answer into an error.
func readError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return unreachable(fmt.Errorf("reading the guest's answer: %w", err))
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return fault.New(fault.Unavailable, "guest_unauthorized", "The sandbox's guest does not recognize this server.")
	}
	var body guest.ErrorBody
	if err := json.Unmarshal(b, &body); err != nil {
		return wrong("an error", fmt.Errorf("status %d without a message", resp.StatusCode))
	}
	kind, message := fault.Kind(body.Kind), plain(body.Message)
	if !slices.Contains(kinds, kind) || !isCode(body.Code) || message == "" {
		return fmt.Errorf("the guest failed (status %d): %s", resp.StatusCode, message)
	}
	return fault.New(kind, body.Code, "%s", message)
}

// plain makes untrusted text safe to show: one line, valid UTF-8, bounded.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(clip(s, 2000), "\uFFFD"))
	return strings.TrimSpace(s)
}

func isCode(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return true
}
