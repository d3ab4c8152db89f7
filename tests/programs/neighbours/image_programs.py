# SPDX-License-Identifier: MIT
"""Programs for pictures.  Several jobs run at once and share what they decode."""
from table import program

ROWS = [
    program("pictures", "libjpeg", "djpeg, cjpeg, jpegtran, rdjpgcom", r"""
for p in $PICTURES/s_[4acr]*.jpg; do
	djpeg -ppm "$p" 2>&1 | sha256sum; djpeg -scale 1/2 -gray -bmp "$p" 2>/dev/null | sha256sum; jpegtran -rotate 90 -copy all "$p" 2>&1 | sha256sum
done
djpeg $PICTURES/s_baseline.jpg | cjpeg -quality 60 -progressive >again.jpg; djpeg -verbose again.jpg 2>&1 >/dev/null | sed 1,3d; rdjpgcom -verbose again.jpg
head -c 2000 $PICTURES/s_baseline.jpg | djpeg 2>&1 >cut.ppm || echo "$?"; djpeg /bin/sh 2>&1 || echo "$?"
""", needs=("djpeg", "cjpeg", "jpegtran", "rdjpgcom"), core=True, tsrun=True, jobs=2),
    program("pictures", "imagemagick", "ImageMagick", r"""
for p in $PICTURES/s_4*.jpg $PICTURES/s_baseline.jpg; do
	identify -format '%m %w %h %[colorspace] %#\n' "$p"; convert "$p" -resize 64x64 -rotate 30 rgb:- | sha256sum; convert -size 100x100 "$p" -quality 50 jpg:- | sha256sum
done
montage $PICTURES/s_4*.jpg -geometry 32x32 ppm:- | sha256sum; compare -metric AE $PICTURES/s_baseline.jpg $PICTURES/s_baseline.jpg null: 2>&1
""", needs=("convert", "identify", "montage", "compare"), packages=("imagemagick",), jobs=2),
    program("pictures", "ffmpeg", "FFmpeg, which has decoders of its own", r"""
ffmpeg -v error -nostdin -i $PICTURES/s_baseline.jpg -pix_fmt rgb24 -f rawvideo - | sha256sum
ffmpeg -v error -nostdin -f lavfi -i testsrc=d=1:s=160x120 -fflags +bitexact -flags +bitexact -threads 4 -c:v mjpeg -q:v 3 v.avi; ffprobe -v error -show_streams v.avi | grep -e codec_name -e nb_frames
ffmpeg -v error -nostdin -i v.avi -f framemd5 -bitexact - | tail -3
""", needs=("ffmpeg", "ffprobe"), packages=("ffmpeg",), jobs=2),
    program("pictures", "gdal", "GDAL", r"""
gdalinfo -checksum -nomd $PICTURES/s_baseline.jpg | grep -e Size -e Checksum -e Driver; gdal_translate -q -of PNM -outsize 50% 50% $PICTURES/s_baseline.jpg o.ppm; sha256sum o.ppm
gdal_translate -q -of GTiff -co COMPRESS=JPEG -co PHOTOMETRIC=YCBCR -co TILED=YES $PICTURES/s_baseline.jpg o.tif; gdalinfo -checksum o.tif | grep Checksum; gdal_translate -q -a_srs EPSG:3857 -a_ullr 0 100 100 0 o.tif g.tif; gdalwarp -q -multi -ts 40 40 g.tif w.tif; gdalinfo -checksum w.tif | grep Checksum; rm -f o.* w.* g.*
""", needs=("gdalinfo", "gdal_translate", "gdalwarp"), packages=("gdal-bin",), jobs=2),
    program("pictures", "exiftool", "ExifTool", r"""
cp $PICTURES/s_exif*.jpg .; exiftool -q -overwrite_original -Artist=me -P *.jpg; exiftool -a -G1 -n --System:all --ExifToolVersion *.jpg
""", packages=("libimage-exiftool-perl",)),
    program("pictures", "webp", "cwebp, which reads JPEG", r"""
cwebp -quiet -mt $PICTURES/s_baseline.jpg -o o.webp; dwebp -quiet o.webp -ppm -o - | sha256sum; sha256sum o.webp; webpinfo o.webp | tail -3
""", needs=("cwebp", "dwebp", "webpinfo"), packages=("webp",), jobs=2),
    program("pictures", "pillow", "Pillow, NumPy and OpenCV", r"""
/usr/bin/python3 - $PICTURES/s_[4bceg]*.jpg <<'END'
import hashlib, sys, numpy, cv2
from PIL import Image, ImageOps
for path in sys.argv[1:]:
    try:
        with Image.open(path) as image:
            print(image.mode, image.size, sorted(image.info), hashlib.sha256(ImageOps.exif_transpose(image).resize((64, 64)).tobytes()).hexdigest())
    except Exception as error:
        print(type(error).__name__, str(error).split("/")[0])
    picture = cv2.imread(path)
    print(None if picture is None else hashlib.sha256(numpy.ascontiguousarray(picture)).hexdigest())
END
""", needs=("/usr/lib/python3/dist-packages/PIL", "/usr/lib/python3/dist-packages/cv2*"), core=True, jobs=2),
]
