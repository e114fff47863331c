package wire

import (
	"net/http"

	"github.com/parawork/parawork/internal/fault"
)

// statuses are the HTTP statuses of the kinds an Error may have.
var statuses = map[fault.Kind]int{
	fault.Invalid: http.StatusBadRequest, fault.Unauthorized: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Timeout: http.StatusRequestTimeout, fault.Conflict: http.StatusConflict, fault.Gone: http.StatusGone,
	fault.Precondition: http.StatusPreconditionFailed, fault.TooLarge: http.StatusRequestEntityTooLarge, fault.RateLimited: http.StatusTooManyRequests,
	fault.Quota: http.StatusTooManyRequests, fault.Unsupported: http.StatusNotImplemented, fault.Unavailable: http.StatusServiceUnavailable,
	fault.DiskFull: http.StatusInsufficientStorage, fault.Internal: http.StatusInternalServerError,
}

// Status returns the HTTP status of an Error's kind.
func Status(k fault.Kind) int {
	if status, ok := statuses[k]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Known reports whether an Error may be of this kind.
func Known(k fault.Kind) bool { return statuses[k] != 0 }
