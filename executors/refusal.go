package executors

import "fmt"

// RefusalReason says why a sandbox was not let through to a host. Stable: it is stored and told.
type RefusalReason string

// Reasons, as in the API.
const (
	NotListed      RefusalReason = "not_listed"
	PrivateAddress RefusalReason = "private_address"
	NoNetwork      RefusalReason = "no_network"
	Unresolved     RefusalReason = "unresolved"
	BadPort        RefusalReason = "bad_port"
)

// Refusal is one connection a sandbox was not given. Host is written as internal/hostname does.
type Refusal struct {
	TeamID      string
	WorkspaceID string
	Host        string
	Port        int
	Reason      RefusalReason
}

// Reach is one connection a sandbox was given. Host is written as internal/hostname does.
type Reach struct {
	TeamID      string
	WorkspaceID string
	Host        string
	Port        int
}

// Words tell a person why, and what to do.
func (r Refusal) Words() string {
	switch r.Reason {
	case NotListed:
		return fmt.Sprintf("%s is not on the list of hosts this workspace may reach. An admin of the team can allow it.", r.Host)
	case PrivateAddress:
		return fmt.Sprintf("%s is inside a private network, which workspaces do not reach. An operator can allow its address with sandboxing.network.allowPrivate.", r.Host)
	case NoNetwork:
		return "This project's workspaces have no network. An admin of the team can change that in the project's settings."
	case Unresolved:
		return fmt.Sprintf("The name %s could not be resolved. Is it written right?", r.Host)
	case BadPort:
		if r.Port == mailPort {
			return "Port 25, through which machines hand mail to each other, is closed to workspaces. Mail services take mail at port 587."
		}
		return fmt.Sprintf("%s may be reached at ports 80, 443 and 22 only. An admin of the team can allow %s:%d.", r.Host, r.Host, r.Port)
	}
	return "It was refused."
}

// mailPort is where mail servers take mail from strangers: an open network is none for sending spam.
const mailPort = 25

// usualPorts are those a listed host without a port may be reached at: http, https and ssh.
var usualPorts = [...]int{80, 443, 22}

// MayPort says whether a host may be reached at a port: one of any host's in an open network, or one of a listed host's whose line names
// the port only, or 0 for none.
func MayPort(mode NetworkMode, only, port int) bool {
	if mode == NetworkOpen {
		return port != mailPort
	}
	if only != 0 {
		return port == only
	}
	for _, p := range usualPorts {
		if p == port {
			return true
		}
	}
	return false
}

// FreePlace is a way on that errors name (details.ways): a place that costs nothing, on this server.
const FreePlace = "free_place"
