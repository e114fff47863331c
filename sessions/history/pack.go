package history

import (
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/parawork/parawork/internal/bytelog"
)

// packer compresses the segments of logs with zstd. It is initialised at first use: a server that never packs pays nothing.
var packer bytelog.Codec = &zstdCodec{}

type zstdCodec struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
}

// maxUnpacked bounds the uncompressed size of one frame: a segment's frames are 256 KiB.
const maxUnpacked = 1 << 20

func (c *zstdCodec) init() {
	c.once.Do(func() {
		// These options are valid: the constructors fail only for others.
		c.enc, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10), zstd.WithEncoderCRC(true))
		c.dec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderLowmem(true))
	})
}

// Encode appends p, compressed.
func (c *zstdCodec) Encode(dst, p []byte) []byte {
	c.init()
	return c.enc.EncodeAll(p, dst)
}

// Decode appends p, decompressed.
func (c *zstdCodec) Decode(dst, p []byte) ([]byte, error) {
	c.init()
	return c.dec.DecodeAll(p, dst)
}
