package guest

// A sandbox's programs find the server's model gateway at a port of its own loopback, whatever its network: the guest listens
// there and carries each connection to its host, over the existing pipe. The host requests a connection ahead of time, with a
// POST of GatewayPath that is answered once a program has connected; the bodies of the request and of its answer are then the two
// directions. The first byte of the request confirms that the host is still there: without it the connection waits for the next
// host.

// GatewayPath is the path at which a host requests the next connection to the gateway.
const GatewayPath = "/v1/gateway"

// EnvGatewayURL and EnvGatewayToken tell an agent whose account uses the gateway its address and the token to present. The
// gateway's paths are below the address: /anthropic and /openai/v1.
const (
	EnvGatewayURL   = "PARAWORK_GATEWAY_URL"
	EnvGatewayToken = "PARAWORK_GATEWAY_TOKEN"
)

// Limits of connections to the gateway, per sandbox.
const (
	MaxGatewayConns = 128 // open at once, including those that wait for a host
	MaxHostName     = 64  // bytes of the name of a host, see HostQuery
)

// HostQuery names, in the query of GatewayPath, the requesting run of a server. It replaces an earlier run: otherwise a guest
// whose pipe was cut silently would pass connections to nobody.
const HostQuery = "host"
