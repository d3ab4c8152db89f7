# SPDX-License-Identifier: MIT
"""The CUDA driver, as a program finds it: libcuda.so.1, which needs neither headers nor a runtime."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"
NO_ROOM, NOT_READY = 2, 600
PAGEABLE_ACCESS, HOST_PAGE_TABLES, REACHES_REGISTERED = 88, 100, 91  # attributes of a device
NON_BLOCKING, NO_TIMES, LAZY_PEERS, PORTABLE = 1, 2, 1, 1  # flags

# What the library calls: TS_CUDA_USED and TS_CUDA_BACK of hooks/cuda/cuda_driver.h, and cuMemAlloc_v2.
NEEDED = """
cuMemAlloc_v2 cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2_ptsz
cuCtxGetCurrent cuCtxGetDevice cuPointerGetAttributes cuStreamIsCapturing cuStreamIsCapturing_ptsz cuMemcpyDtoDAsync_v2
cuMemcpyDtoDAsync_v2_ptsz cuStreamGetCtx cuStreamQuery cuStreamQuery_ptsz cuStreamSynchronize cuStreamSynchronize_ptsz
cuStreamCreate cuStreamDestroy_v2 cuEventCreate cuEventDestroy_v2 cuEventQuery cuEventRecord cuEventRecord_ptsz
cuMemHostAlloc cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister cuMemFree_v2 cuMemGetAddressRange_v2 cuMemGetInfo_v2
cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle cuDeviceGetAttribute cuDeviceGetUuid_v2
cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRetain cuDriverGetVersion cuCtxPushCurrent_v2 cuCtxPopCurrent_v2
cuThreadExchangeStreamCaptureMode
""".split()

# Exported name: (base name, version asked for, flags), as the CUDA runtime asks cuGetProcAddress.
RESOLVED = {
    "cuMemcpyHtoD_v2": ("cuMemcpyHtoD", 3020, 0),
    "cuMemcpyHtoD_v2_ptds": ("cuMemcpyHtoD", 7000, 2),
    "cuMemcpyHtoDAsync_v2": ("cuMemcpyHtoDAsync", 3020, 0),
    "cuMemcpyHtoDAsync_v2_ptsz": ("cuMemcpyHtoDAsync", 7000, 2),
    "cuMemcpy": ("cuMemcpy", 4000, 0),
    "cuMemcpy_ptds": ("cuMemcpy", 7000, 2),
    "cuMemcpyAsync": ("cuMemcpyAsync", 4000, 0),
    "cuMemcpyAsync_ptsz": ("cuMemcpyAsync", 7000, 2),
    "cuDevicePrimaryCtxRelease": ("cuDevicePrimaryCtxRelease", 7000, 0),
    "cuDevicePrimaryCtxReset": ("cuDevicePrimaryCtxReset", 7000, 0),
    "cuDevicePrimaryCtxRelease_v2": ("cuDevicePrimaryCtxRelease", 11000, 0),
    "cuDevicePrimaryCtxReset_v2": ("cuDevicePrimaryCtxReset", 11000, 0),
}


class Handle(ctypes.Structure):
    """CUipcMemHandle."""
    _fields_ = [("bytes", c_ubyte * 64)]


class Location(ctypes.Structure):
    """CUmemLocation: a device."""
    _fields_ = [("type", c_int), ("number", c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp: memory of a device whose handle is a descriptor."""
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("unused", c_void_p), ("flags", c_uint64)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""
    _fields_ = [("location", Location), ("flags", c_int)]


# p: a pointer or an object of the driver's; d: an address of a device; z: bytes; u, i, q: numbers; h: a handle by value.
TYPES = {"p": c_void_p, "d": c_uint64, "z": c_size_t, "u": c_uint, "i": c_int, "q": c_uint64, "h": Handle}

# What the calls of these checks take.
TAKES = {
    "cuInit": "u", "cuDriverGetVersion": "p", "cuDeviceGetCount": "p", "cuDeviceGetName": "pii", "cuDeviceGetUuid_v2": "pi",
    "cuDeviceGetAttribute": "pii", "cuDeviceCanAccessPeer": "pii", "cuDevicePrimaryCtxRetain": "pi", "cuCtxSetCurrent": "p",
    "cuCtxGetDevice": "p", "cuGetProcAddress_v2": "ppiqp", "cuLaunchHostFunc": "ppp",
    "cuMemAlloc_v2": "pz", "cuMemFree_v2": "d", "cuMemGetAddressRange_v2": "ppd", "cuMemHostAlloc": "pzu", "cuMemFreeHost": "p",
    "cuMemHostRegister_v2": "pzu", "cuMemHostUnregister": "p", "cuMemsetD8Async": "duzp",
    "cuMemcpyHtoD_v2": "dpz", "cuMemcpyHtoD_v2_ptds": "dpz", "cuMemcpy": "ddz", "cuMemcpy_ptds": "ddz",
    "cuMemcpyHtoDAsync_v2": "dpzp", "cuMemcpyHtoDAsync_v2_ptsz": "dpzp", "cuMemcpyAsync": "ddzp",
    "cuMemcpyAsync_ptsz": "ddzp", "cuMemcpyDtoHAsync_v2": "pdzp", "cuMemcpyDtoDAsync_v2": "ddzp",
    "cuStreamCreate": "pu", "cuStreamSynchronize": "p", "cuStreamSynchronize_ptsz": "p", "cuStreamQuery": "p",
    "cuStreamWaitEvent": "ppu", "cuEventCreate": "pu", "cuEventRecord": "pp", "cuEventQuery": "p",
    "cuIpcGetMemHandle": "pd", "cuIpcOpenMemHandle_v2": "phu", "cuIpcCloseMemHandle": "d",
    "cuMemCreate": "pzpq", "cuMemExportToShareableHandle": "pqiq", "cuMemImportFromShareableHandle": "ppi",
    "cuMemAddressReserve": "pzzdq", "cuMemMap": "dzzqq", "cuMemSetAccess": "dzpz", "cuMemRelease": "q",
    "cuMemGetAllocationGranularity": "ppu",
}


class Refused(Exception):
    """The driver answered a call with an error."""

    def __init__(self, name, code):
        super().__init__(f"{name} gives the error {code}" + (" (the GPU has no room)" if code == NO_ROOM else ""))
        self.code = code


class Driver:
    """The calls of the table: .cuInit(0) raises Refused; .ask("cuEventQuery", event) gives the number."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)

    def has(self, name):
        return hasattr(self.library, name)

    def address(self, name):
        return ctypes.cast(getattr(self.library, name), c_void_p).value

    def ask(self, name, *arguments):
        function = getattr(self.library, name)
        function.argtypes = [TYPES[letter] for letter in TAKES[name]]
        return function(*arguments)

    def __getattr__(self, name):
        def call(*arguments):
            code = self.ask(name, *arguments)
            if code != 0:
                raise Refused(name, code)
        return call

    def get(self, name, kind, *arguments):
        """The value that a call writes through its first parameter."""
        value = kind()
        getattr(self, name)(byref(value), *arguments)
        return value if isinstance(value, ctypes.Structure) else value.value

    def resolve(self, base, version, flags):
        """The address that cuGetProcAddress gives; None: none."""
        found, status = c_void_p(), c_int()
        self.cuGetProcAddress_v2(base.encode(), byref(found), version, flags, byref(status))
        return found.value

    def uuid(self, device):
        value = (c_ubyte * 16)()
        self.cuDeviceGetUuid_v2(value, device)
        return bytes(value).hex()

    def name(self, device):
        text = ctypes.create_string_buffer(128)
        self.cuDeviceGetName(text, len(text), device)
        return text.value.decode("ascii", "replace")

    def attribute(self, number, device):
        return self.get("cuDeviceGetAttribute", c_int, number, device)

