#!/bin/sh
# SPDX-License-Identifier: MIT
gdalinfo -checksum -nomd "$PICTURES"/s_baseline.jpg | grep -e Size -e Checksum -e Driver
gdal_translate -q -of PNM -outsize 50% 50% "$PICTURES"/s_baseline.jpg o.ppm
sha256sum o.ppm
gdal_translate -q -of GTiff -co COMPRESS=JPEG -co PHOTOMETRIC=YCBCR -co TILED=YES \
	"$PICTURES"/s_baseline.jpg o.tif
gdalinfo -checksum o.tif | grep Checksum
gdal_translate -q -a_srs EPSG:3857 -a_ullr 0 100 100 0 o.tif g.tif
gdalwarp -q -multi -ts 40 40 g.tif w.tif
gdalinfo -checksum w.tif | grep Checksum
rm -f o.* w.* g.*
