package guest

// GateSocket is where a sandbox without a network of its own finds the only way out, unless EnvGate says otherwise. What listens there is
// an HTTP proxy of the server's.
const GateSocket = "/run/parawork/gate/egress"

// EnvGate names the socket in the environment of every program in such a sandbox.
const EnvGate = "PARAWORK_GATE"

// ForwardsPath is what the gate itself is asked, in origin form, for the ports of the server's own loopback that an operator lets
// sandboxes reach. The answer is Forwards as JSON.
const ForwardsPath = "/v1/forwards"

// Forwards are ports that are to be found at 127.0.0.1 inside as they are outside.
type Forwards struct {
	Ports []int `json:"ports"`
}

// MaxForwards bounds Forwards.Ports.
const MaxForwards = 32
