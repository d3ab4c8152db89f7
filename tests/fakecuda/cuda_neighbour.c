/* SPDX-License-Identifier: MIT */
/* A preload that has a function of the driver's name, for the question whose address is whose.
 */
int cuDriverGetVersion(int *version);

__attribute__((visibility("default"))) int cuDriverGetVersion(int *version)
{
	*version = 1;
	return 0;
}
