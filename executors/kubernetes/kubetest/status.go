package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// object is one of the API, as decoded from JSON.
type object = map[string]any

// Status is how the API refuses, as an error.
type Status struct {
	Code    int
	Reason  string
	Message string
	Details object
	Retry   int // s until the caller should try again; 0 = nothing is said
}

func (s *Status) Error() string { return fmt.Sprintf("%d %s: %s", s.Code, s.Reason, s.Message) }

func (s *Status) object() object {
	o := object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure", "message": s.Message, "reason": s.Reason, "code": s.Code}
	d := s.Details
	if s.Retry > 0 {
		d = object{"retryAfterSeconds": s.Retry}
	}
	if d != nil {
		o["details"] = d
	}
	return o
}

// reasons of statuses that faults answer without saying more.
var reasons = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound",
	http.StatusConflict: "Conflict", http.StatusGone: "Expired", http.StatusUnprocessableEntity: "Invalid", http.StatusTooManyRequests: "TooManyRequests",
	http.StatusInternalServerError: "InternalError", http.StatusServiceUnavailable: "ServiceUnavailable", http.StatusGatewayTimeout: "Timeout",
}

func refuse(code int, format string, args ...any) *Status {
	return &Status{Code: code, Reason: reasons[code], Message: fmt.Sprintf(format, args...)}
}

// full is a resource's name in messages.
func (r *resource) full() string {
	if r.group == "" {
		return r.plural
	}
	return r.plural + "." + r.group
}

func (r *resource) details(name string) object {
	d := object{"kind": r.plural}
	if name != "" {
		d["name"] = name
	}
	if r.group != "" {
		d["group"] = r.group
	}
	return d
}

func (r *resource) missing(name string) *Status {
	s := refuse(http.StatusNotFound, "%s %q not found", r.full(), name)
	s.Details = r.details(name)
	return s
}

func (r *resource) exists(name string) *Status {
	s := refuse(http.StatusConflict, "%s %q already exists", r.full(), name)
	s.Reason, s.Details = "AlreadyExists", r.details(name)
	return s
}

func (r *resource) conflict(name, why string) *Status {
	s := refuse(http.StatusConflict, "Operation cannot be fulfilled on %s %q: %s", r.full(), name, why)
	s.Details = r.details(name)
	return s
}

func (r *resource) forbidden(name, why string) *Status {
	s := refuse(http.StatusForbidden, "%s %q is forbidden: %s", r.full(), name, why)
	s.Details = r.details(name)
	return s
}

// cause is one thing that is wrong with an object.
type cause struct{ kind, field, text string }

func required(field, text string) cause {
	return cause{"FieldValueRequired", field, "Required value" + colon(text)}
}

func invalid(field string, value any, text string) cause {
	v := fmt.Sprintf("%v", value)
	if s, ok := value.(string); ok {
		v = fmt.Sprintf("%q", s)
	}
	return cause{"FieldValueInvalid", field, "Invalid value: " + v + colon(text)}
}

func notSupported(field, value, text string) cause {
	return cause{"FieldValueNotSupported", field, fmt.Sprintf("Unsupported value: %q: supported values: %s", value, text)}
}

func notAllowed(field, text string) cause {
	return cause{"FieldValueForbidden", field, "Forbidden" + colon(text)}
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// invalid refuses an object for all that is wrong with it.
func (r *resource) invalid(name string, all []cause) *Status {
	text, list := "", []any{}
	for i, c := range all {
		if i > 0 {
			text += ", "
		}
		text += c.field + ": " + c.text
		list = append(list, object{"reason": c.kind, "message": c.text, "field": c.field})
	}
	if len(all) > 1 {
		text = "[" + text + "]"
	}
	kind := r.kind
	if r.group != "" {
		kind += "." + r.group
	}
	s := refuse(http.StatusUnprocessableEntity, "%s %q is invalid: %s", kind, name, text)
	s.Details = object{"name": name, "kind": r.kind, "causes": list}
	if r.group != "" {
		s.Details["group"] = r.group
	}
	return s
}

// marshal is for answers that are sent inside of a stream.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
