package wire

import (
	"net/http"

	"github.com/parawork/parawork/internal/fault"
)

// Status is the HTTP status of an Error's kind.
func Status(k fault.Kind) int {
	switch k {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.Unauthorized:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Timeout:
		return http.StatusRequestTimeout
	case fault.Conflict:
		return http.StatusConflict
	case fault.Gone:
		return http.StatusGone
	case fault.Precondition:
		return http.StatusPreconditionFailed
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.RateLimited, fault.Quota:
		return http.StatusTooManyRequests
	case fault.Unsupported:
		return http.StatusNotImplemented
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.DiskFull:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
