package history

import (
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/parawork/parawork/internal/bytelog"
)

// packer packs the segments of logs with zstd. Its machinery is made at the first use: a server that never packs pays nothing.
var packer bytelog.Codec = &zstdCodec{}

type zstdCodec struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
}

// maxUnpacked bounds what one frame may unpack to: a segment's frames are 256 KiB.
const maxUnpacked = 1 << 20

func (c *zstdCodec) init() {
	c.once.Do(func() {
		// These options are valid: the constructors fail on others only.
		c.enc, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10), zstd.WithEncoderCRC(true))
		c.dec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderLowmem(true))
	})
}

// Encode appends what p packs to.
func (c *zstdCodec) Encode(dst, p []byte) []byte {
	c.init()
	return c.enc.EncodeAll(p, dst)
}

// Decode appends what p was packed from.
func (c *zstdCodec) Decode(dst, p []byte) ([]byte, error) {
	c.init()
	return c.dec.DecodeAll(p, dst)
}
